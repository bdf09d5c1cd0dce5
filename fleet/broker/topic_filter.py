"""MQTT topic filters (MQTT 3.1.1, section 4.7), pure."""

from __future__ import annotations


def matches(topic_filter: str, topic: str) -> bool:
    """Whether a subscription to ``topic_filter`` receives ``topic``.

    ``+`` stands for one level, a final ``#`` for the level before it and all below; neither matches a first level that
    starts with ``$``.

    >>> matches("a/+/c", "a/b/c"), matches("a/#", "a"), matches("#", "$SYS/x")
    (True, True, False)
    """
    if topic.startswith("$") and topic_filter[:1] in ("+", "#"):
        return False
    wanted, levels = topic_filter.split("/"), topic.split("/")
    for position, level in enumerate(wanted):
        if level == "#":
            return True
        if position == len(levels) or level not in ("+", levels[position]):
            return False
    return len(wanted) == len(levels)


def is_filter(text: str) -> bool:
    """Whether ``text`` may be subscribed to: wildcards only as whole levels, ``#`` only at the end."""
    levels = text.split("/")
    whole = all(level in ("+", "#") or not set(level) & {"+", "#"} for level in levels)
    return _is_string(text) and whole and "#" not in levels[:-1]


def is_topic(text: str) -> bool:
    """Whether ``text`` may be published on."""
    return _is_string(text) and not set(text) & {"+", "#"}


def _is_string(text: str) -> bool:
    """MQTT 3.1.1 section 1.5.3, and not empty: UTF-8 of at most 65,535 bytes without NUL or lone surrogates."""
    return 0 < len(text.encode(errors="surrogatepass")) <= 65_535 and not any(
        character == "\0" or "\ud800" <= character <= "\udfff" for character in text
    )
