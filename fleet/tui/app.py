"""The application: asks the server for what the present screen shows, once a second, and carries out verbs."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

from textual import on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.screen import Screen
from textual.timer import Timer

from fleet.client import FleetClient
from fleet.errors import ClientError, ServerRefused, ServerUnreachable
from fleet.http.api_types import DeviceView, RolloutView
from fleet.tui.commands import FleetCommands, PaletteEntry, containing
from fleet.tui.desk import Desk
from fleet.tui.driver import TolerantDriver
from fleet.tui.glyphs import glyphs_for
from fleet.tui.line_filters import AsciiOnly, NoColours
from fleet.tui.link import Link
from fleet.tui.messages import AskNow, BundleWanted, DeviceWanted, RolloutWanted, Said, VerbConfirmed
from fleet.tui.request_thread import Requests, RequestThread
from fleet.tui.screens.bundle import BundleScreen
from fleet.tui.screens.bundles import BundlesScreen
from fleet.tui.screens.device import DeviceScreen
from fleet.tui.screens.devices import DevicesScreen
from fleet.tui.screens.fleet import OverviewScreen
from fleet.tui.screens.help import HelpScreen
from fleet.tui.screens.live_screen import LiveScreen
from fleet.tui.screens.rollout import RolloutScreen
from fleet.tui.screens.rollouts import RolloutsScreen
from fleet.tui.terminal import MINIMUM_COLUMNS, MINIMUM_ROWS, starting_environment, unusable, wants_no_colours
from fleet.tui.view_models.connection import refused_text, unreachable_text
from fleet.tui.view_models.spans import Span, Tone, line
from fleet.tui.view_models.verbs import VERBS, Verb, done_text
from fleet.tui.widgets.masthead import PAGES, Masthead

POLL_S = 1.0
SAID_FOR_S = 10.0


class FleetApp(App[None]):
    """``reader`` answers screens, ``commander`` carries verbs, so that a slow list never holds up a pause.

    clock_s: a monotonic clock. rest: waits that many seconds between questions. ``no_colours`` leaves bold and reverse.
    """

    TITLE = "MindEdge"
    CSS_PATH = "fleet.tcss"
    COMMANDS = {FleetCommands}  # noqa: RUF012 - Textual's own declaration
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (MINIMUM_COLUMNS, "-wide")]  # noqa: RUF012 - Textual's own declaration
    VERTICAL_BREAKPOINTS = [(0, "-short"), (MINIMUM_ROWS, "-low"), (16, "-high")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"page('{page}')", title, show=False) for key, page, title in PAGES),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(
        self,
        desk: Desk,
        reader: Requests,
        commander: Requests,
        *,
        first_page: str = "fleet",
        poll_s: float = POLL_S,
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock_s: Callable[[], float] = time.monotonic,
        no_colours: bool = False,
    ) -> None:
        super().__init__(ansi_color=True if no_colours else None)
        self._desk = desk
        self._reader = reader
        self._commander = commander
        self._first_page = first_page
        self._poll_s = poll_s
        self._rest = rest
        self._clock_s = clock_s
        self._wake = asyncio.Event()
        self._said_timer: Timer | None = None
        self._said_on: LiveScreen[Any] | None = None
        self.link = Link()
        self.devices: Sequence[DeviceView] = ()
        self.rollouts: Sequence[RolloutView] = ()
        self._last_filters: list[LineFilter] = [NoColours()] if no_colours else []
        self._last_filters += [AsciiOnly()] if desk.glyphs.is_ascii else []

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), *self._last_filters]

    def on_mount(self) -> None:
        desk = self._desk
        self.set_class(desk.glyphs.is_ascii, "-ascii")
        self.add_mode("fleet", lambda: OverviewScreen(desk))
        self.add_mode("devices", lambda: DevicesScreen(desk))
        self.add_mode("rollouts", lambda: RolloutsScreen(desk))
        self.add_mode("bundles", lambda: BundlesScreen(desk))
        self.switch_mode(self._first_page)
        self.run_worker(self._keep_asking(), exit_on_error=True)
        self.set_interval(1.0, self._tell_link)

    # --- asking ------------------------------------------------------------------------------------------------------

    @property
    def live_screen(self) -> LiveScreen[Any] | None:
        """The screen whose content is seen, below any dialog."""
        for screen in reversed(self.screen_stack):
            if isinstance(screen, LiveScreen):
                return screen
        return None

    async def _keep_asking(self) -> None:
        """One question after another, never two at a time."""
        while True:
            await self.ask_once()
            rest = asyncio.ensure_future(self._rest(self.link.rest_s(self._poll_s)))
            woken = asyncio.ensure_future(self._wake.wait())
            try:
                await asyncio.wait((rest, woken), return_when=asyncio.FIRST_COMPLETED)
            finally:
                rest.cancel()
                woken.cancel()
            self._wake.clear()

    async def ask_once(self) -> None:
        """Asks what the present screen wants to know and gives it the answer."""
        screen = self.live_screen
        if screen is None:
            return
        self.link = self.link.asking(self._clock_s())
        try:
            answer = await self._reader.call(screen.question())
        except ServerUnreachable as error:
            self.link = self.link.failed(unreachable_text(error.reason))
        except ServerRefused as error:
            self.link = self.link.failed(refused_text(error.detail))
        except ClientError as error:
            self.link = self.link.failed(str(error))
        else:
            if self.link.failures:
                self.post_message(Said(line(Span("server answers again", Tone.GOOD))))
            self.link = self.link.answered()
            self._remember(answer)
            screen.receive(answer, self._clock_s())
        self._tell_link()

    def _remember(self, answer: object) -> None:
        """Names for the command palette."""
        for content in answer if isinstance(answer, tuple) else (answer,):
            if isinstance(content, list) and content:
                if isinstance(content[0], DeviceView):
                    self.devices = content
                elif isinstance(content[0], RolloutView):
                    self.rollouts = content

    def _tell_link(self) -> None:
        screen = self.live_screen
        if screen is not None:
            now_s = self._clock_s()
            screen.show_link(self.link.trouble_at(now_s), now_s)

    # --- messages ----------------------------------------------------------------------------------------------------

    @on(AskNow)
    def _ask_now(self) -> None:
        self._tell_link()
        self._wake.set()

    @on(Said)
    def _said(self, event: Said) -> None:
        screen = self.live_screen
        if screen is None:
            return
        self._hush()
        screen.say(event.line)
        self._said_on = screen
        self._said_timer = self.set_timer(SAID_FOR_S, self._hush)

    def _hush(self) -> None:
        """What was said is over: another word comes, another page, or its time is up."""
        if self._said_timer is not None:
            self._said_timer.stop()
        if self._said_on is not None:
            self._said_on.say(None)
        self._said_on = self._said_timer = None

    @on(VerbConfirmed)
    def _verb_confirmed(self, event: VerbConfirmed) -> None:
        self.run_worker(self._carry_out(event.verb, event.rollout), exit_on_error=True)

    async def _carry_out(self, verb: Verb, rollout: RolloutView) -> None:
        try:
            after = await self._commander.call(lambda client: client.act(rollout.id, verb.name))
        except ServerUnreachable as error:
            text = f"{verb.title.lower()} may not have arrived ({error.reason}): see the state when the server is back"
            self.post_message(Said(line(Span(text, Tone.BAD))))
        except ClientError as error:
            self.post_message(Said(line(Span(f"refused: {error}", Tone.BAD))))
        else:
            self.post_message(Said(line(Span(done_text(verb, after), Tone.GOOD))))
        self._wake.set()

    @on(DeviceWanted)
    def _device_wanted(self, event: DeviceWanted) -> None:
        self._hush()
        self.push_screen(DeviceScreen(self._desk, event.device))

    @on(BundleWanted)
    def _bundle_wanted(self, event: BundleWanted) -> None:
        self._hush()
        self.push_screen(BundleScreen(self._desk, event.name, event.version))

    @on(RolloutWanted)
    def _rollout_wanted(self, event: RolloutWanted) -> None:
        self._hush()
        self.push_screen(RolloutScreen(self._desk, event.rollout))

    @on(Masthead.PageWanted)
    def _page_wanted(self, event: Masthead.PageWanted) -> None:
        self.action_page(event.page)

    # --- keys and commands -------------------------------------------------------------------------------------------

    def action_page(self, page: str) -> None:
        """To a page; when it is shown already, back to its table."""
        self._hush()
        if self.current_mode != page:
            self.switch_mode(page)
        elif len(self.screen_stack) > 1:
            self.pop_screen()

    def action_close_page(self) -> None:
        if len(self.screen_stack) > 1:
            self.pop_screen()

    def action_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self._desk.glyphs))

    def palette_entries(self) -> Iterable[PaletteEntry]:
        """What can be done from where we are."""
        for _, page, title in PAGES:
            yield PaletteEntry(f"Go to {title}", f"the {page} page", partial(self.action_page, page))
        screen: Screen[Any] | None = self.live_screen
        if isinstance(screen, RolloutScreen | RolloutsScreen):
            for verb in VERBS:
                yield PaletteEntry(f"{verb.title} rollout", "asks first", partial(screen.action_ask_verb, verb.name))
        yield PaletteEntry("Help", "keys and marks", self.action_help)
        yield PaletteEntry("Quit", "nothing on the server changes", self.exit)

    def palette_names(self, part: str) -> Iterable[PaletteEntry]:
        """Devices and rollouts that were seen, by part of their name."""
        for device in containing((device.id for device in self.devices), part):
            yield PaletteEntry(f"Device {device}", "open it", partial(self.post_message, DeviceWanted(device)))
        for rollout in self.rollouts:
            if containing((rollout.name, rollout.id), part):
                open_it = partial(self.post_message, RolloutWanted(rollout.id))
                yield PaletteEntry(f"Rollout {rollout.name}", f"{rollout.id}, {rollout.state}", open_it)


def run(server: str, token: str | None) -> int:
    """The command ``mindfleet tui``. Exit status 2, with one line, where no screen can be shown."""
    environ = starting_environment(os.environ)
    is_tty = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    reason = unusable(os.environ, is_tty=is_tty)
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        return 2
    if not wants_no_colours(os.environ):
        os.environ.pop("NO_COLOR", None)  # Textual takes even an empty one for a wish
    desk = Desk(server, glyphs_for(environ), lambda: time.time_ns() // 1_000_000)
    reader, commander = (RequestThread(FleetClient(server, token)) for _ in range(2))
    app = FleetApp(desk, reader, commander, no_colours=wants_no_colours(os.environ))
    app.driver_class = TolerantDriver
    app.run()
    return app.return_code or 0
