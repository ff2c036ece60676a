"""``verism run SUITE``: its own options, its own checks, and nothing generated before all of it is known to fit."""

import re

import pytest

from verism import api
from verism.errors import UsageError
from verism.records import option_of, roles
from verism.suites.catalogue import SUITES, suite_class

# Options that every suite's `verism run` has, whatever the suite is.
COMMON = {"--model", "--images", "--out", "--seed", "--rule", "--threshold", "--dry-run", "--json", "--retry", "--help"}


def own_flags(name: str) -> set[str]:
    suite = suite_class(name)
    return {o.command_line for o in suite.options} | {r.flag for r in suite.rules if r.flag}


@pytest.mark.parametrize("name", SUITES)
def test_help_of_run_shows_the_options_of_its_suite_and_of_no_other(name, in_process):
    code, out, _ = in_process("run", name, "--help")
    assert code == 0
    listed = {line.split()[0] for line in out.splitlines() if line.strip().startswith("--")}
    listed |= {line.split()[1] for line in out.splitlines() if re.match(r" +-[a-z], --", line)}
    assert own_flags(name) <= listed
    others = set().union(*(own_flags(other) for other in SUITES)) - own_flags(name)
    judges = {option_of(role) for role in roles()}
    assert not listed & (others - COMMON - judges)
    asked = suite_class(name).judge_roles
    if asked:
        assert listed & judges == {f"--{role.replace('_', '-')}" for role in asked}
    for rule in suite_class(name).rules:
        assert rule.name in out


def test_help_of_run_lists_every_suite(in_process):
    code, out, _ = in_process("run", "--help")
    assert code == 0
    for name in SUITES:
        assert re.search(rf"^ +{name} ", out, flags=re.MULTILINE), name


def test_an_option_of_another_suite_is_no_option(in_process):
    code, _, err = in_process("run", "paintskills", "--annotations", "x.json", "--dry-run")
    assert code == 2
    assert "No such option" in err
    assert "--annotations" in err


@pytest.mark.parametrize("command", ["run", "prompts"])
def test_an_unknown_suite_is_refused_with_near_names(command, in_process):
    code, out, err = in_process(command, "paintskils")
    assert (code, out) == (2, "")
    assert "unknown suite 'paintskils'. Did you mean paintskills" in err


def test_the_suite_comes_before_its_options(in_process):
    code, _, err = in_process("run", "--limit", "3", "paintskills")
    assert code == 2
    assert "name the suite first" in err


def test_spellings_with_hyphens_name_the_same_suite(in_process):
    asked = [in_process("prompts", name, "--limit", "3") for name in ("paintskills_v1", "paintskills-v1")]
    assert asked[0] == asked[1]
    assert asked[0][0] == 0
    assert len(asked[0][1].splitlines()) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--detector", "none"], "paintskills needs a judge: name one with --detector"),
        (["--detector", "bultin"], "bultin"),
        (["--detector", "builtin?limt=3"], "limt"),
        (["--rule", "treshold=3"], "paintskills has no rule 'treshold'"),
        (["--rule", "threshold_revised=3"], "threshold_revised is a number, between 0 and 1; got"),
        (["--model", "orcale"], "orcale"),
        (["--split", "tset"], "tset"),
    ],
)
@pytest.mark.parametrize("dry", [True, False])
def test_what_does_not_fit_is_refused_before_the_first_image(words, message, dry, in_process, tmp_path, monkeypatch):
    generated = []
    monkeypatch.setattr("verism.api.run_images", lambda *given, **_: generated.append(given))
    model = [] if "--model" in words else ["--model", "oracle"]
    ending = ["--dry-run"] if dry else []
    code, out, err = in_process("run", "paintskills", "--limit", "3", "--out", tmp_path / "R", *model, *words, *ending)
    assert (code, out) == (2, "")
    assert message in err
    assert not generated
    assert not (tmp_path / "R").exists()


def test_a_dry_run_says_who_would_judge_by_which_rules(in_process, tmp_path):
    import json

    words = ("run", "paintskills", "--limit", "6", "--rule", "spatial_margin=0.1", "--out", tmp_path / "R")
    code, out, _ = in_process(*words, "--dry-run", "--json")
    assert code == 0
    result = json.loads(out)
    assert (result["suite"], result["prompts"], result["images"], result["images_done"]) == ("paintskills", 6, 6, 0)
    assert result["images_by_group"] == {"object": 2, "count": 2, "spatial": 2}
    assert result["judges"]["detector"].startswith("builtin")
    assert result["judgements"] == {"detector": 6}
    assert result["rules"]["spatial_margin"] == 0.1
    assert not (tmp_path / "R").exists()


# ---------------------------------------------------------------------------------------------------- judges that check
class Generated(Exception):
    """An image was asked for."""


class Never:
    """A generator that must not be asked."""

    name = "never@1"

    def generate(self, requests):  # noqa: ARG002
        raise Generated
        yield


class Choosy:
    """A detector that says beforehand that it cannot do what is asked."""

    name, threshold = "choosy@1", 0.5

    def __init__(self):
        self.needs, self.closed = [], 0

    def check(self, need):
        self.needs.append(need)
        if "bear" in need.classes or len(need.classes) > 3:
            raise UsageError("choosy@1 does not know the classes of this suite")

    def observe(self, images, need):  # noqa: ARG002
        raise AssertionError("no image should have been observed")

    def close(self):
        self.closed += 1


@pytest.mark.parametrize("call", [api.evaluate, api.plan])
def test_a_judge_is_asked_whether_it_fits_before_any_image_is_generated(call, tmp_path):
    judge = Choosy()
    with pytest.raises(UsageError, match="does not know the classes of this suite"):
        call("paintskills", model=Never(), out=tmp_path / "R", detector=judge, limit=3)
    assert len(judge.needs) == 1
    assert judge.closed == 0  # it is the caller's
    assert not (tmp_path / "R").exists()


def test_a_generator_that_is_asked_is_seen(tmp_path):
    """Guards the test above: without a judge that objects, the generator is asked."""

    class Easy(Choosy):
        def check(self, need):
            self.needs.append(need)

    with pytest.raises(Generated):
        api.evaluate("paintskills", model=Never(), out=tmp_path / "R", detector=Easy(), limit=3)


def test_what_a_caller_passed_in_is_used_again_and_not_closed(tmp_path, suite, scripted):
    from fakes import PixelJudge

    class Counted(PixelJudge):
        closed = 0

        def close(self):
            self.closed += 1

    judge = Counted()
    for name in ("one", "two"):
        run = api.evaluate(suite, model=scripted(0.5), out=tmp_path / name, judges={"detector": judge})
        assert set(run.read("images")["state"].to_list()) == {"ok"}
    assert judge.closed == 0
    assert len(judge.seen) == 24
    with pytest.raises(UsageError, match="no role 'detectr'"):
        api.evaluate(suite, model=scripted(0.5), judges={"detectr": judge})
