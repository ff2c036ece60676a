"""Trackers keep what a run says: read back from their own stores by their own libraries."""

from __future__ import annotations

import json
import math
import re
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_runs import build_run

import verism
from verism.api import score
from verism.errors import MissingExtra, UsageError
from verism.records import Score, frame
from verism.registry import make_tracker
from verism.store import Run
from verism.trackers import Evaluation, Tracker, tell_scores
from verism.trackers.evaluation import redact
from verism.trackers.mlflow_tracker import mlflow_name

CANARY = "canary-secret-0123456789"


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("runs") / "mine"
    build_run(path, skill_level=0.8, limit=24, states={3: "refused", 5: "failed"}, truth=True)
    return Run.open(path)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_API_KEY", CANARY)
    for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "wandb-home"))
    for name in ("WANDB_MODE", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)


def headline(run: Run) -> Score:
    return run.headlines()[0]


def expected(run: Run, of: Score) -> dict[str, float]:
    name = f"{run.suite_name}/{of.metric}"
    return {name: of.value, f"{name}/ci_low": of.ci_low, f"{name}/ci_high": of.ci_high, f"{name}/n_used": of.n_used}


# ---------------------------------------------------------------------------------------------------------- evaluation
def test_metrics_have_every_defined_score_with_its_interval_and_counts_once(scored):
    numbers = Evaluation(run=scored).metrics()
    defined = [s for s in scored.scores() if not math.isnan(s.value)]
    values = [name for name in numbers if name.rpartition("/")[2] not in ("ci_low", "ci_high", "n_used", "n_unusable")]
    assert len(values) == len(defined) + 5  # and images by state
    assert {k: numbers[k] for k in expected(scored, headline(scored))} == expected(scored, headline(scored))
    states = {state: numbers[f"{scored.suite_name}/images/{state}"] for state in ("ok", "refused", "failed", "missing")}
    assert states == {"ok": 22, "refused": 1, "failed": 1, "missing": 0}


def test_groups_whose_names_are_alike_but_for_a_slash_stay_apart(scored, monkeypatch):
    value = headline(scored)
    groups = [{"place": "a/b"}, {"place": "a_b"}, {"place": "c/d"}]
    scores = [replace(value, group=group, value=n / 10) for n, group in enumerate(groups, 1)]
    monkeypatch.setattr(scored, "scores", lambda: scores)
    evaluation = Evaluation(run=scored)
    names = [evaluation.score_name(of_group).rpartition("/")[2] for of_group in scores]
    assert re.fullmatch(r"place=a_b-[0-9a-f]{8}", names[0])
    assert names[1:] == ["place=a_b", "place=c_d"]
    assert [evaluation.metrics()[evaluation.score_name(of_group)] for of_group in scores] == [0.1, 0.2, 0.3]


def test_headline_metrics_are_those_of_the_run(scored):
    evaluation = Evaluation(run=scored)
    assert [evaluation.metrics("headline")[name] for name in evaluation.headline_names()] == list(
        scored.metrics().values()
    )
    assert len(evaluation.metrics("headline")) < len(evaluation.metrics())


def test_params_have_settings_and_hide_what_is_secret(scored, monkeypatch):
    settings = replace(
        scored.manifest.settings,
        generator=f"openai:model?base_url=https://me:{CANARY}@host/v1&api_key={CANARY}",
        seed=5,
        suite_settings={"skills": ["object"], "hub_token": "x" * 20, "key_env": "MY_KEY"},
    )
    monkeypatch.setattr(scored, "manifest", replace(scored.manifest, settings=settings))
    params = Evaluation(run=scored).params()
    suite = settings.suite
    assert CANARY not in json.dumps(params)
    assert params[f"{suite}/settings/hub_token"] == "[hidden]"
    assert params[f"{suite}/settings/key_env"] == "MY_KEY"
    assert (params[f"{suite}/seed"], params[f"{suite}/settings/skills"]) == ("5", "object")


def test_redact_hides_keys_of_the_environment_and_logins_of_addresses():
    assert redact(f"http://me:pw@host:5000 said {CANARY}!") == "http://[hidden]@host:5000 said [hidden]!"


def test_sample_images_are_jpeg_files_with_prompt_and_outcome(scored, tmp_path):
    written = Evaluation(run=scored, step=7).write_files(tmp_path / "files", n_images=6, report=True)
    assert len(written) == 6
    listed = json.loads((tmp_path / "files" / "images.json").read_text())
    prompts = {p.text for p in scored.prompts()}
    for (file, image), record in zip(written, listed, strict=True):
        assert file.read_bytes()[:3] == b"\xff\xd8\xff"
        assert image.prompt in prompts
        assert record["verdict"] in ("right", "wrong")
        assert (tmp_path / "files" / record["file"]).is_file()
    assert "<!doctype html>" in (tmp_path / "files" / "report.html").read_text().lower()
    assert json.loads((tmp_path / "files" / "settings.json").read_text())["step"] == 7


# --------------------------------------------------------------------------------------------------------------- hooks
def test_function_is_told_the_run_its_step_and_its_checkpoint(scored):
    told: list[Evaluation] = []
    score(scored.path, on_scores=told.append, step=3, checkpoint="c3")
    (evaluation,) = told
    assert (evaluation.step, evaluation.checkpoint, evaluation.title) == (3, "c3", "mine")
    assert evaluation.run.metrics() == Run.open(scored.path).metrics()


def test_evaluate_tells_several_hooks_and_survives_a_tracker_that_fails(tmp_path, suite, scripted, capsys):
    class Failing:
        name = "failing"

        def log(self, evaluation: Evaluation) -> None:
            raise ConnectionError(f"no route to {evaluation.title}, key {CANARY}")

    told: list[Evaluation] = []
    lines: list[str] = []
    run = verism.evaluate(
        suite, model=scripted(), judges={"detector": "truth"}, out=tmp_path / "run",
        on_scores=[Failing(), told.append], on_summary=lines.append,
    )  # fmt: skip
    assert run.is_scored
    assert [e.run.path for e in told] == [run.path]
    (line,) = [line for line in lines if "not logged" in line]
    assert line.startswith("not logged to failing: ConnectionError: no route to run, key [hidden]. The scores are in")
    assert CANARY not in capsys.readouterr().err


def test_error_of_a_function_reaches_the_caller_after_the_scores_are_written(scored):
    def stop(evaluation: Evaluation) -> None:
        raise KeyError(evaluation.suite)

    with pytest.raises(KeyError):
        score(scored.path, on_scores=stop)
    assert Run.open(scored.path).is_scored


# -------------------------------------------------------------------------------------------------------------- MLflow
@pytest.mark.parametrize(
    ("name", "taken"),
    [("a/b_c-d.e", "a/b_c-d.e"), ("suite/accuracy/skill=count", "suite/accuracy/skill:count")],
)
def test_names_for_mlflow_stay_readable(name, taken):
    assert mlflow_name(name) == taken


def test_names_for_mlflow_stay_apart():
    names = ["a=b", "a:b", "a b", "a+b", "a?b", "é", "è", "x" * 400, "x" * 401]
    taken = [mlflow_name(name) for name in names]
    assert len(set(taken)) == len(names)
    assert max(map(len, taken)) <= 250


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of MLflow's; making its database takes seconds."""
    return tmp_path_factory.mktemp("mlflow") / "with space"


def test_mlflow_folder_has_metrics_params_tags_and_artifacts_by_step(scored, store):
    from mlflow.tracking import MlflowClient

    tracker = make_tracker(f"mlflow:{store}?experiment=june&run_name=mine&images=3")
    for step in (100, 200):
        tracker.log(Evaluation(run=scored, step=step, checkpoint=f"c{step}"))
    tracker.close()

    client = MlflowClient(tracking_uri=f"sqlite:///{store / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("june")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("mine", "FINISHED")
    for name, value in expected(scored, headline(scored)).items():
        history = client.get_metric_history(run.info.run_id, mlflow_name(name))
        assert [(m.step, m.value) for m in history] == [(100, pytest.approx(value)), (200, pytest.approx(value))]
    assert len(run.data.metrics) == len(Evaluation(run=scored).metrics())
    suite = scored.suite_name
    assert run.data.params[f"{suite}/seed"] == str(scored.manifest.settings.seed)
    assert run.data.tags["verism.checkpoint"] == "c200"
    assert mlflow_name(next(iter(expected(scored, headline(scored))))) in run.data.tags[f"verism.{suite}.headline"]
    files = {f.path.rpartition("/")[2] for f in client.list_artifacts(run.info.run_id, f"{suite}/step-00000200")}
    assert files == {"images", "images.json", "report.html", "scores.csv", "settings.json"}
    assert len(client.list_artifacts(run.info.run_id, f"{suite}/step-00000200/images")) == 3
    assert Path(experiment.artifact_location.removeprefix("file://").replace("%20", " ")).parent == store


def test_mlflow_logs_into_a_run_that_exists_and_leaves_it_open(scored, store, tmp_path):
    from mlflow.tracking import MlflowClient

    store.mkdir(parents=True, exist_ok=True)
    uri = f"sqlite:///{store / 'mlflow.db'}"
    client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("theirs", artifact_location=(tmp_path / "artifacts").as_uri())
    training = client.create_run(experiment)
    tracker = make_tracker(f"mlflow:{uri}?run_id={training.info.run_id}&scores=headline&report=false&images=0")
    tracker.log(Evaluation(run=scored, step=1))
    tracker.close()
    run = client.get_run(training.info.run_id)
    assert run.info.status == "RUNNING"
    assert len(run.data.metrics) == len(Evaluation(run=scored).metrics("headline"))
    listed = client.list_artifacts(run.info.run_id, f"{scored.suite_name}/step-00000001")
    assert {f.path.rpartition("/")[2] for f in listed} == {"scores.csv", "settings.json"}


# --------------------------------------------------------------------------------------------------------- TensorBoard
def test_tensorboard_has_scalars_texts_and_images_by_step(scored, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tracker = make_tracker(f"tensorboard:{tmp_path / 'logs'}?images=2")
    for step in (10, 20):
        tracker.log(Evaluation(run=scored, name="model a", step=step, checkpoint=f"c{step}"))
    tracker.close()

    (folder,) = (tmp_path / "logs").iterdir()
    assert folder.name.startswith("model-a")
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0, "images": 0, "scalars": 0}).Reload()
    for name, value in expected(scored, headline(scored)).items():
        assert [(e.step, e.value) for e in events.Scalars(name)] == [
            (10, pytest.approx(value)), (20, pytest.approx(value)),
        ]  # fmt: skip
    suite = scored.suite_name
    assert events.Images(f"{suite}/sample/000")[0].encoded_image_string[:3] == b"\xff\xd8\xff"
    assert events.Images(f"{suite}/sample/000")[0].width > 1
    settings = [e.tensor_proto.string_val[0].decode() for e in events.Tensors(f"{suite}/settings")]
    assert "| checkpoint | c10 |" in settings[0]
    assert f"| {suite}/seed | {scored.manifest.settings.seed} |" in settings[1]
    assert (folder / "verism" / suite / "step-00000020" / "report.html").is_file()


# ---------------------------------------------------------------------------------------------------- Weights & Biases
def records(folder: Path) -> Iterator[Any]:
    """What wandb wrote in its offline mode: a LevelDB log (blocks of 32 KiB) of protocol buffers, after 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    (file,) = folder.rglob("run-*.wandb")
    data, position, parts = file.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while position + 7 <= len(data):
        room = 32768 - position % 32768
        if room < 7:  # the rest of a block, too small for a header
            position += room
            continue
        _, length, kind = struct.unpack_from("<IHB", data, position)
        parts += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last of several
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


def test_wandb_offline_has_history_config_images_and_artifact(scored, tmp_path):
    tracker = make_tracker(f"wandb:project?mode=offline&dir={tmp_path / 'wb'}&run_name=mine&images=2")
    for step in (100, 50):  # an earlier step than the last is kept, too
        tracker.log(Evaluation(run=scored, step=step, checkpoint=f"c{step}"))
    tracker.close()

    deadline = time.monotonic() + 30
    while not any(record.HasField("exit") for record in records(tmp_path / "wb")):  # written by a process of wandb's
        assert time.monotonic() < deadline
        time.sleep(0.1)
    suite, kinds = scored.suite_name, list(records(tmp_path / "wb"))
    history = [
        {(item.key or "/".join(item.nested_key)): json.loads(item.value_json) for item in record.history.item}
        for record in kinds
        if record.WhichOneof("record_type") == "history"
    ]
    assert [row[f"{suite}/step"] for row in history] == [100, 50]
    for name, value in expected(scored, headline(scored)).items():
        assert [row[name] for row in history] == [pytest.approx(value)] * 2
    assert history[0][f"{suite}/sample/count"] == 2
    (run,) = [record.run for record in kinds if record.WhichOneof("record_type") == "run"][:1]
    assert (run.project, run.display_name) == ("project", "mine")
    config = {
        item.key: json.loads(item.value_json)
        for record in kinds
        if record.WhichOneof("record_type") == "config"
        for item in record.config.update
    }
    assert config[f"{suite}/seed"] == str(scored.manifest.settings.seed)
    artifacts = [record.artifact for record in kinds if record.WhichOneof("record_type") == "artifact"]
    artifacts = [a for a in artifacts if a.type == "evaluation"] or [
        record.request.log_artifact.artifact for record in kinds if record.request.HasField("log_artifact")
    ]
    names = {entry.path for entry in artifacts[0].manifest.contents}
    assert {"report.html", "scores.csv", "settings.json", "images.json"} <= names
    everything = b"".join(p.read_bytes() for p in (tmp_path / "wb").rglob("*") if p.is_file())
    assert CANARY.encode() not in everything


# --------------------------------------------------------------------------------------------------------------- names
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mlfow:x", "unknown tracker 'mlfow'. Did you mean mlflow"),
        ("mlflow:x?experimnt=y", "unknown option 'experimnt'. Did you mean experiment"),
        ("mlflow:file:///x", "MLflow has given up its store of files"),
        ("tensorboard", "write tensorboard:FOLDER"),
        ("wandb:a/b", "'a/b' is no name of a project"),
        ("tensorboard:x?images=-1", "0 or more; got -1"),
        ("builtin", "unknown tracker 'builtin'"),
    ],
)
def test_names_that_no_tracker_has_are_refused(name, message):
    with pytest.raises(UsageError) as caught:
        make_tracker(name)
    assert message in str(caught.value)


def test_library_that_is_not_there_is_told_with_its_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises((MissingExtra, ModuleNotFoundError), match="tensorboard"):
        make_tracker("tensorboard:x")


def test_plan_tells_functions_and_names_trackers_that_fail(tmp_path):
    class Failing:
        name = "failing"

        def log(self, evaluation: Evaluation) -> None:
            raise OSError(f"disk full of {evaluation.suite}")

    plan = verism.Plan.make(
        models={"perfect": "oracle"},
        suites={"paintskills": {"limit": 2}},
        defaults={"size": 64, "detector": "truth"},
    )
    told: list[str] = []
    from verism.plans import run_plan

    (outcome,) = run_plan(plan, tmp_path / "P", on_scores=[lambda e: told.append(e.title), Failing()])
    assert outcome.state == "done"
    assert told == ["perfect"]
    assert "not logged to failing: OSError: disk full of paintskills" in outcome.remarks[0]


def test_tell_scores_counts_failures(scored):
    class Failing:
        name = "f"

        def log(self, evaluation: Evaluation) -> None:
            raise RuntimeError(evaluation.suite)

    assert tell_scores([Failing(), lambda _: None], Evaluation(run=scored), lambda _: None) == 1


# ---------------------------------------------------------------------------------------------------------------- docs
def test_python_of_the_documentation_runs(tmp_path, monkeypatch, capsys):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    text = (Path(__file__).parents[2] / "docs" / "trackers.md").read_text(encoding="utf-8")
    hook, own = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)

    class Blind:
        name = "blind"

        def observe(self, images: Any, need: object) -> object:  # noqa: ARG002
            return frame("detections", [{"image_id": i.image_id, "judge": self.name, "query": -1} for i in images])

    def generate(prompt: str, seed: int) -> Any:
        return np.random.default_rng([len(prompt), seed]).integers(0, 255, (32, 32, 3), dtype=np.uint8)

    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"generate": generate, "detector": Blind(), "Path": Path, "json": json}
    exec(compile(hook, "trackers.md", "exec"), names)
    assert capsys.readouterr().out.startswith("2000 {'mean_accuracy': ")
    events = EventAccumulator(str(tmp_path / "logs" / "2000")).Reload()
    assert [e.step for e in events.Scalars("paintskills/mean_accuracy")] == [2000]
    exec(compile(own, "trackers.md", "exec"), names)
    tracker = names["JsonLines"](tmp_path / "scores.jsonl")
    assert isinstance(tracker, Tracker)
    tracker.log(Evaluation(run=names["run"], step=3))
    assert json.loads((tmp_path / "scores.jsonl").read_text())["step"] == 3
