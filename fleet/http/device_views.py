"""From the records of a device to what the API shows. Pure."""

from __future__ import annotations

from edge_contracts.evidence import ChoiceEvidence
from edge_contracts.messages import ActiveModel, ReportedModel
from fleet.domain.device import Device
from fleet.domain.history import DeviceEvent
from fleet.domain.plain_words import short_choice, shortened, threads_of
from fleet.http import api_types as api
from fleet.services.reading import DeviceRecords, Served

MIN_REQUESTS = 20
"""Percentiles of fewer requests say nothing and are left out."""


def device_view(records: DeviceRecords) -> api.DeviceView:
    """The row of a device."""
    device, facts = records.device, records.device.capabilities
    return api.DeviceView(
        id=device.id,
        site=device.site,
        state=device.state.value,
        online=device.online,
        labels=device.labels,
        board=(facts.board.profile or facts.board.model) if facts else None,
        soc=facts.board.soc if facts else None,
        cpu_model=facts.cpu.model if facts else None,
        budget_cpus=facts.cpu.budget_cpus if facts else None,
        memory_mb=facts.memory.total_mb if facts else None,
        agent_version=device.agent_version,
        serving_port=device.serving_port,
        enrolled_at_ms=device.enrolled_ms,
        last_seen_ms=device.presence.last_seen_ms,
        temp_c=device.vitals.temp_c,
        throttled=device.vitals.throttled,
        rss_mb=device.vitals.rss_mb,
        cpu_percent=device.vitals.cpu_percent,
        models=_models(records),
    )


def device_detail(records: DeviceRecords, events: list[DeviceEvent]) -> api.DeviceDetail:
    """A device with its choices and events."""
    return api.DeviceDetail(
        device=device_view(records),
        evidence=_evidence(records.device),
        events=[
            api.EventView(
                device=event.device,
                at_ms=event.at_ms,
                kind=event.kind,
                text=event.text,
                model=event.model,
                deployment=event.deployment,
            )
            for event in events
        ],
    )


def _evidence(device: Device) -> dict[str, ChoiceEvidence]:
    """Of the last deployment, as reported, else of what serves."""
    models = device.reported.models if device.reported is not None else {}
    last = {name: entry.evidence for name, entry in models.items() if entry.evidence is not None}
    return {**{name: choice.evidence for name, choice in device.choices.items()}, **last}


def _models(records: DeviceRecords) -> list[api.ModelView]:
    reported = records.device.reported.models if records.device.reported is not None else {}
    return [_model(name, reported.get(name), records) for name in sorted({*reported, *records.wishes})]


def _model(name: str, entry: ReportedModel | None, records: DeviceRecords) -> api.ModelView:
    wish = records.wishes.get(name)
    wished = wish.version if wish is not None else None
    if entry is None:
        return api.ModelView(name=name, desired_version=wished)
    active = entry.active
    race = _race(name, active, records.device)
    served = records.served.get((name, active.digest)) if active is not None else None
    return api.ModelView(
        name=name,
        version=active.version if active else None,
        digest=active.digest if active else None,
        signed=active.signed if active else False,
        backend=_backend(active) if active else None,
        deployment=entry.deployment,
        state=entry.state.value,
        reason=shortened(entry.reason, entry.evidence),
        error_code=entry.error_code,
        attempted_version=entry.attempted.version if entry.attempted else None,
        last_good_version=entry.last_good.version if entry.last_good else None,
        desired_version=wished,
        healthy=entry.healthy,
        regressed=entry.regressed,
        p50_ms=_quantile_ms(served, 0.5),
        p90_ms=_quantile_ms(served, 0.9),
        requests=served.requests if served else 0,
        race_p50_ms=race.chosen.latency.p50_ms if race and race.chosen.latency else None,
        race_p90_ms=race.chosen.latency.p90_ms if race and race.chosen.latency else None,
        ratio_vs_onnxruntime_default=race.ratio_vs_onnxruntime_default if race else None,
        accuracy=race.chosen.accuracy.value if race and race.chosen.accuracy else None,
        accuracy_drop=race.chosen.accuracy.drop if race and race.chosen.accuracy else None,
        accuracy_metric=race.chosen.accuracy.metric if race and race.chosen.accuracy else None,
        why=race.why if race else None,
        chosen=short_choice(race) if race else None,
    )


def _race(name: str, active: ActiveModel | None, device: Device) -> ChoiceEvidence | None:
    """The evidence of what serves."""
    choice = device.choices.get(name)
    return choice.evidence if choice is not None and active is not None and choice.digest == active.digest else None


def _backend(active: ActiveModel) -> api.BackendView:
    return api.BackendView(
        variant=active.variant,
        runtime=active.runtime,
        precision=active.precision,
        target=active.target,
        provider=active.provider,
        threads=threads_of(active.options),
        options=active.options,
    )


def _quantile_ms(served: Served | None, fraction: float) -> float | None:
    enough = served is not None and served.requests >= MIN_REQUESTS
    value_us = served.sketch.quantile_us(fraction) if served is not None and enough else None
    return None if value_us is None else round(value_us / 1000.0, 4)
