from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from packager.errors import RecipeRefused
from packager.recipe import Recipe, Route
from packager.recipe_file import __doc__ as documented
from packager.recipe_file import read_recipe


def written(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text)
    return path


def test_an_empty_recipe_is_the_default(tmp_path: Path) -> None:
    assert read_recipe(written(tmp_path, "")) == Recipe()


def test_the_documented_example_is_a_recipe(tmp_path: Path) -> None:
    example = inspect.cleandoc((documented or "").partition("\n\n")[2])
    recipe = read_recipe(written(tmp_path, example))
    assert recipe.targets == ("cpu", "gpu")
    assert recipe.device_runtimes == {"onnxruntime": "1.16"}
    assert recipe.variants == (Route("onnxruntime", "int8", "cpu", "onnx_int8_static", {"method": "entropy"}),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("targets = 3", r"\$\.targets"),
        ("colour = 1", "colour"),
        ("method = 'int4'", "method: 'int4' is not one of static_int8"),
        ("max_drop = 2.0", "max_drop is 2"),
        ("targets = ['tpu']", "targets: 'tpu'"),
        ("[", "recipe.toml: "),
        ("[[variants]]\nruntime='x'\nprecision='fp32'\ntarget='cpu'\nconverter='stub'", "variants.runtime: 'x'"),
    ],
)
def test_a_wrong_recipe_is_refused_naming_file_and_field(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(RecipeRefused, match=said) as raised:
        read_recipe(written(tmp_path, text))
    assert "recipe.toml" in str(raised.value)
