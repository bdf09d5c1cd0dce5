"""Which profile fits a board, and what it adds where the board's own files are silent. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from agent.hardware import cpu_list
from agent.hardware.probers import midr
from edge_contracts.capabilities import Accelerator, AcceleratorStatus, Capabilities, CpuCluster, CpuFacts
from edge_contracts.profiles import ExpectedCluster, MatchRules, Profile

NO_MATCH = 0
BY_ARCH = 10
BY_CPU_LAYOUT = 40
BY_CPU_MODEL = 50
BY_ACCELERATOR = 60
BY_DMI = 80
BY_RELATIVE = 90
"""A compatible string after the first: a relative of the board or its SoC; each step further is one less."""
BY_MODEL = 95
BY_BOARD = 100


def match(profiles: Sequence[Profile], facts: Capabilities) -> Profile | None:
    """The profile whose rule is the most specific; of equals the first by name."""
    ranked = sorted(profiles, key=lambda profile: (-score(profile.match, facts), profile.name))
    return ranked[0] if ranked and score(ranked[0].match, facts) > NO_MATCH else None


def score(rules: MatchRules, facts: Capabilities) -> int:
    """How specifically these rules fit, NO_MATCH if they do not."""
    arch = facts.os.kernel_arch
    if rules.arch and arch is not None and arch not in rules.arch:
        return NO_MATCH
    return max(
        _by_compatible(rules, facts),
        BY_MODEL if _found(rules.model, facts.board.model) else NO_MATCH,
        BY_DMI if _by_dmi(rules, facts) else NO_MATCH,
        BY_ACCELERATOR if _by_accelerator(rules, facts) else NO_MATCH,
        BY_CPU_MODEL if _found(rules.cpu_model, facts.cpu.model) else NO_MATCH,
        BY_CPU_LAYOUT if _by_cpus(rules, facts) else NO_MATCH,
        BY_ARCH if rules.any_board and arch in rules.arch else NO_MATCH,
    )


def completed(facts: Capabilities, profiles: Sequence[Profile], *, bus_seen: bool) -> Capabilities:
    """The facts with the profile's name, and with what is soldered on every such board where nothing else told it.

    A profile never contradicts a file: the model's title stands in for a missing model, the SoC for a missing SoC,
    the silicon's clusters and features for a missing cpuinfo, an integrated accelerator for a bus that is not shown.
    Where the bus is shown (`bus_seen`), what is not on it is switched off.
    """
    profile = match(profiles, facts)
    if profile is None:
        return facts
    generic = profile.match.any_board
    board = facts.board
    return msgspec.structs.replace(
        facts,
        board=msgspec.structs.replace(
            board,
            profile=profile.name,
            model=board.model or (None if generic else profile.title),
            soc=board.soc or profile.soc,
        ),
        os=facts.os if facts.os.kernel_arch else msgspec.structs.replace(facts.os, kernel_arch=profile.arch),
        cpu=_completed_cpu(facts.cpu, profile),
        accelerators=[*facts.accelerators, *([] if bus_seen else _unseen(facts.accelerators, profile))],
    )


# -- rules


def _by_compatible(rules: MatchRules, facts: Capabilities) -> int:
    for index, entry in enumerate(facts.board.compatible):
        if entry in rules.compatible:
            return BY_BOARD if index == 0 else BY_RELATIVE - index
    return NO_MATCH


def _found(patterns: Sequence[str], text: str | None) -> bool:
    return text is not None and any(re.search(pattern, text, flags=re.IGNORECASE) for pattern in patterns)


def _by_dmi(rules: MatchRules, facts: Capabilities) -> bool:
    vendor = facts.board.vendor or ""
    return not facts.board.compatible and any(
        _found([rule.vendor], vendor) and _found([rule.model], facts.board.model) for rule in rules.dmi
    )


def _by_accelerator(rules: MatchRules, facts: Capabilities) -> bool:
    return any(
        rule.vendor == found.vendor and _found([rule.name], found.name) and not (rule.on_die and found.bus_id)
        for rule in rules.accelerators
        for found in facts.accelerators
    )


def _by_cpus(rules: MatchRules, facts: Capabilities) -> bool:
    clusters = [cluster for cluster in facts.cpu.clusters if cluster.online is not False]
    if rules.cpu_parts and set(rules.cpu_parts) <= {cluster.part for cluster in clusters}:
        return True
    layout = {cluster.part: cluster.logical_cpus for cluster in clusters}
    return bool(rules.cpu_layout) and len(layout) == len(clusters) and layout == rules.cpu_layout


# -- what the silicon adds


def _completed_cpu(cpu: CpuFacts, profile: Profile) -> CpuFacts:
    expected = profile.cpu.clusters
    if cpu.clusters:
        named = [_named_offline(cluster, expected) for cluster in cpu.clusters]
        return msgspec.structs.replace(cpu, clusters=named)
    if not expected:
        return cpu
    return msgspec.structs.replace(
        cpu,
        model=cpu.model or (profile.soc if profile.arch == "x86_64" else None),
        physical_cores=sum(cluster.cores for cluster in expected),
        logical_cpus=cpu.logical_cpus or sum(cluster.cores * cluster.threads_per_core for cluster in expected),
        clusters=[_of_expected(cluster) for cluster in expected],
        features=cpu.features or dict(profile.cpu.features),
    )


def _named_offline(cluster: CpuCluster, expected: Sequence[ExpectedCluster]) -> CpuCluster:
    """A cluster that is switched off tells nothing but its CPU numbers."""
    if cluster.online is not False or cluster.core is not None or cluster.logical_cpus is None:
        return cluster
    cpus = set(cpu_list.parse(cluster.logical_cpus))
    for known in expected:
        if known.cpus is not None and cpus <= set(cpu_list.parse(known.cpus)):
            count = len(cpus) // known.threads_per_core
            return msgspec.structs.replace(
                cluster, core=midr.core_name(known.part) or known.core, part=known.part, cores=count
            )
    return cluster


def _of_expected(known: ExpectedCluster) -> CpuCluster:
    return CpuCluster(
        core=known.core,
        cores=known.cores,
        logical_cpus=known.cpus,
        max_mhz=known.max_mhz,
        threads_per_core=known.threads_per_core,
        part=known.part,
    )


def _unseen(found: Sequence[Accelerator], profile: Profile) -> list[Accelerator]:
    """Integrated accelerators of a kind and vendor that nothing showed."""
    seen = {(accelerator.kind, accelerator.vendor) for accelerator in found}
    return [
        Accelerator(
            kind=expected.kind,
            vendor=expected.vendor,
            name=expected.name,
            status=AcceleratorStatus.PRESENT,
            detail="part of this board; nothing here shows it, so whether it works is not known",
            bus_id=expected.bus_id,
        )
        for expected in profile.accelerators
        if expected.integrated and (expected.kind, expected.vendor) not in seen
    ]
