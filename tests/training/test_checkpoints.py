"""Checkpoints of trainings: what keeps one from going on is said in words."""

import pytest

from verism.errors import UsageError

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from verism.training._checkpoints import TrainingState, load_state, save_state  # noqa: E402


def test_settings_that_a_checkpoint_does_not_share_are_named_with_what_to_do(tmp_path):
    layer = torch.nn.Linear(2, 2)
    state = TrainingState(
        kind="detector",
        weights=layer.state_dict(),
        optimized=["weight", "bias"],
        optimizer=torch.optim.AdamW(layer.parameters()),
        average={},
    )
    path = tmp_path / "checkpoint.safetensors"
    save_state(path, state, {"learn": "kinds", "width": 0.25, "seed": 0, "start": None})
    with pytest.raises(UsageError) as caught:
        load_state(path, state, {"width": 0.5, "seed": 0, "start": "builtin"})
    assert str(caught.value) == (
        f"{path} was trained with other settings: learn was kinds, and is not set now; width was 0.25, and is 0.5 now; "
        "start was not set, and is builtin now. Give the same settings to go on, or use another folder, or start over: "
        "--fresh (Python: resume=False)"
    )
    load_state(path, state, {"learn": "kinds", "width": 0.25, "seed": 0, "start": None})
