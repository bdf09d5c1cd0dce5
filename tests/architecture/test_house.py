"""The house rules that a linter does not know."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("edge_contracts", "agent", "fleet", "packager", "mindspeed", "firmware_profiles")
SOURCES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base", "new", "legacy"}
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 450


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_source_file_keeps_the_house_rules(path: Path) -> None:
    text = path.read_text()
    assert path.stem not in EMPTY_NAMES, "the name says nothing"
    assert text.count("\n") <= MAX_FILE_LINES, "one idea per file"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_FUNCTION_LINES, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_broad_except_raises_on_or_gives_its_reason(path: Path) -> None:
    text = path.read_text()
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ExceptHandler) and _is_broad(node) and not _raises_on(node):
            around = "\n".join(lines[node.lineno - 1 : node.body[0].lineno]).replace("# noqa: BLE001", "")
            assert "#" in around or " - " in around, f"line {node.lineno}: say beside it why everything must be caught"


def _is_broad(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or getattr(handler.type, "id", "") in ("Exception", "BaseException")


def _raises_on(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_every_test_folder_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert [_name(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []
