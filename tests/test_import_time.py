"""``import verism`` costs nothing: what is heavy loads on first use."""

import json
import subprocess
import sys

import pytest

import verism

HEAVY = ("polars", "torch", "transformers", "onnxruntime", "embreex", "trimesh", "scipy", "PIL", "jinja2", "numpy")


def loaded_after(code: str) -> set[str]:
    script = f"import json, sys\n{code}\nprint(json.dumps([m.partition('.')[0] for m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_importing_the_package_loads_nothing_heavy():
    assert not loaded_after("import verism") & set(HEAVY)


def test_the_command_line_starts_without_models_or_tables():
    # numpy and Pillow are for commands to load; `verism --help` must not wait for anything.
    assert not loaded_after("import verism.cli.main") & set(HEAVY)


def test_the_api_and_scoring_load_no_model_library():
    loaded = loaded_after("import verism; verism.evaluate, verism.Run, verism.suites; import verism.pipeline.scoring")
    assert not loaded & {"torch", "transformers", "onnxruntime", "embreex", "trimesh"}


@pytest.mark.parametrize("name", verism.__all__)
def test_public_names_resolve(name):
    assert getattr(verism, name) is not None
    assert name in dir(verism)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'evalute'"):
        _ = verism.evalute
