"""A whole fleet without network: services over a memory (or SQL) store and the in-process broker, with a clock by hand.

fleet = FleetInMemory()
device = fleet.device("cam-1")
fleet.bundle("digits", "1.0.0")
rollout = fleet.rollout("1.0.0", waves=["1", "100%"])
fleet.settle()
"""

from __future__ import annotations

import hashlib
import itertools

import msgspec

from edge_contracts.enrolment import EnrolRequest, MqttEndpoint, parse_token
from edge_contracts.messages import Policy
from edge_contracts.topics import ALL_UP
from fleet.broker.memory import MemoryBroker
from fleet.broker.outbox import Outgoing
from fleet.domain.catalogue import RegisteredBundle
from fleet.domain.rollout import Rollout, RolloutEvent, Target, Wave
from fleet.domain.targeting import Selector
from fleet.domain.wave import WavePolicy
from fleet.errors import PublishRefused
from fleet.ingress.intake import Intake
from fleet.services.accounts import AccountKeeper
from fleet.services.bundles import Bundles
from fleet.services.enrolment import Enrolment
from fleet.services.inventory import Effects, Inventory
from fleet.services.reading import Reading
from fleet.services.rollouts import Rollouts
from fleet.services.wishes import Wishes
from fleet.store.memory import MemoryStore
from fleet.store.unit_of_work import Store
from tests.simulators.device import SimulatedDevice

SERVER = "http://server:8080"


class NoBlobs:
    """No registry: bundles are put into the catalogue directly."""

    def read_small(self, digest: str) -> bytes:
        raise AssertionError(digest)

    def size(self, digest: str) -> int | None:
        raise AssertionError(digest)


class LoadingKeeper(AccountKeeper):
    """Loads at once, in the caller's thread."""

    def changed(self, wait_s: float = 0.0) -> bool:
        self.load()
        return True


def digest_of(version: str) -> str:
    return "sha256:" + hashlib.sha256(version.encode()).hexdigest()


class FleetInMemory:
    """``now_ms`` is moved by hand."""

    def __init__(self, store: Store | None = None) -> None:
        self.now_ms = 1_000_000
        self._numbers = itertools.count(1)
        self.broker = MemoryBroker()
        self.store = store or MemoryStore()
        self.store.open()
        self.broker.start()
        self.devices: dict[str, SimulatedDevice] = {}
        self._passwords: dict[str, str] = {}
        self.start_server()

    def start_server(self) -> None:
        """A server process begins: only store and broker remember anything."""
        now = lambda: self.now_ms  # noqa: E731
        self.wishes = Wishes(self.store, self)
        self.accounts = LoadingKeeper(self.store, self.broker)
        endpoint = lambda: MqttEndpoint(port=1883)  # noqa: E731
        self.enrolment = Enrolment(self.store, self.accounts, endpoint, now, self.random_bytes)
        self.bundles = Bundles(self.store, NoBlobs(), now)
        self.rollouts = Rollouts(self.store, self.bundles, self.wishes, now, self.random_bytes)
        self.reading = Reading(self.store, now)
        self.intake = Intake(Inventory(self.store).ingest, self._after, now)
        self.link = self.broker.link(self.intake.put)
        self.link.subscribe(ALL_UP)
        self.link.start()
        self.wishes.publish_lagging()

    def kill_server(self) -> None:
        """Nothing is tidied up; what was not acknowledged comes again."""
        self.link.stop()
        self.link = None  # type: ignore[assignment]

    def publish(self, topic: str, payload: bytes, retain: bool) -> None:
        if self.link is None:
            raise PublishRefused(topic, "the server is dead")
        self.link.publish(topic, payload, retain)

    def random_bytes(self, count: int) -> bytes:
        return hashlib.sha512(str(next(self._numbers)).encode()).digest()[:count]

    def device(self, name: str, *, online: bool = True, **labels: str) -> SimulatedDevice:
        """Enrols a device and connects it."""
        _, line = self.enrolment.create_token(SERVER, uses=1, expires_s=None, site="default", labels=labels)
        answer = self.enrolment.enrol(EnrolRequest(secret=parse_token(line).secret, device=name))
        self._passwords[name] = answer.password
        self.devices[name] = SimulatedDevice(answer.device, answer.site)
        if online:
            self.connect(name)
            self.settle()
        return self.devices[name]

    def connect(self, name: str) -> None:
        device = self.devices[name]
        topic, payload = device.will()
        connection = self.broker.connect(
            name, self._passwords[name], lambda message: device.received(message.topic, message.payload),
            will=Outgoing(topic, payload, retain=True),
        )  # fmt: skip
        device.connection = connection  # type: ignore[attr-defined]
        device.connected(connection)
        connection.subscribe(device.down_topic())

    def disconnect(self, name: str) -> None:
        """The network is gone; the broker publishes the will."""
        self.devices[name].connection.drop()  # type: ignore[attr-defined]

    def lose(self, name: str) -> None:
        """The network is gone and the server has heard of it."""
        self.disconnect(name)
        self.settle()

    def bundle(self, name: str, version: str, *, signed: bool = False) -> RegisteredBundle:
        record = RegisteredBundle(
            name=name, version=version, digest=digest_of(version), signed=signed, variants=["stub"], size_bytes=1,
            registered_ms=self.now_ms,
        )  # fmt: skip
        with self.store.write() as work:
            work.bundles.save([record])
            work.commit()
        return record

    def rollout(
        self, version: str, *, waves: list[WavePolicy | str] | None = None, start: bool = True, **fields: object
    ) -> str:
        """Creates (and starts) a rollout of ``digits``; its id."""
        policies = [WavePolicy(size=wave) if isinstance(wave, str) else wave for wave in waves or ["100%"]]
        draft = Rollout(
            id="", name="", model="digits", version=version, digest="", selector=Selector(), created_ms=0,
            waves=tuple(Wave(policy=policy) for policy in policies), policy=Policy(allow_unsigned=True),
        )  # fmt: skip
        rollout = self.rollouts.create(msgspec.structs.replace(draft, **fields))
        if start:
            self.rollouts.act(rollout.id, RolloutEvent.START, "started")
        return rollout.id

    def settle(self) -> None:
        """Until nothing moves any more."""
        while self.intake.take_batch(0) or self.rollouts.tick():
            pass

    def after_s(self, seconds: float) -> None:
        """Time passes, then everything settles."""
        self.now_ms += int(1000 * seconds)
        self.settle()

    def head(self, rollout: str) -> Rollout:
        return self.rollouts.get(rollout)[0]

    def targets(self, rollout: str) -> dict[str, Target]:
        """The latest target of each device."""
        return {t.device: t for t in sorted(self.rollouts.get(rollout)[1], key=lambda t: (t.attempt, t.kind.value))}

    def states(self, rollout: str) -> dict[str, str]:
        return {name: t.state.value if t.state else "waiting" for name, t in self.targets(rollout).items()}

    def _after(self, effects: Effects) -> None:
        self.wishes.publish(effects.lagging)
