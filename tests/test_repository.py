"""The files around the book agree with each other."""

import os
import re
import tomllib

import pytest
import yaml

from tools.book import ROOT, notebook_paths

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.M))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pins(name):
    """Exact versions that a requirements file names."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, flags=re.M))


def contents_files():
    """Pages of the table of contents, in order."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    return [toc["root"], *chapters]


def steps():
    """Every step of every job of every workflow."""
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            for step in job["steps"]:
                yield path.name, step


def test_help_has_a_line_for_every_target():
    helped = set(re.findall(r"^([a-z-]+):.*##", MAKEFILE, flags=re.M))
    assert TARGETS - helped == set()
    phony = re.search(r"\.PHONY:((?:.*\\\n)*.*)", MAKEFILE)[1].replace("\\", " ").split()
    assert set(phony) == TARGETS


def test_every_script_that_make_calls_exists():
    for script in re.findall(r"tools/\w+\.py", MAKEFILE):
        assert (ROOT / script).exists(), script


def test_contents_name_every_page_once():
    files = contents_files()
    assert len(set(files)) == len(files)
    existing = {f"book/{path.stem}" for path in (ROOT / "book").glob("*.md")}
    existing |= {f"notebooks/{path.stem}" for path in notebook_paths()}
    assert set(files) == existing


def test_chapters_stand_in_order():
    chapters = [name for name in contents_files() if name.startswith("notebooks/")]
    assert chapters == sorted(chapters)


def test_parts_are_those_that_the_map_describes():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    captions = [part["caption"] for part in toc["parts"] if "notebooks/" in str(part)]
    described = (ROOT / "book" / "how_to_read.md").read_text(encoding="utf-8")
    parts = re.findall(r"^\| ([A-Z][^|]+?) \|", described, flags=re.M)
    assert captions == [part for part in parts if part in captions]


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_pins_agree_with_the_constraints(name):
    constraints = pins("constraints.txt")
    assert pins(name).items() <= constraints.items()


def test_every_direct_dependency_has_its_reason():
    reasons = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    reasons = reasons[reasons.index("## Dependencies") :]
    for name in [*pins("requirements.txt"), *pins("requirements-dev.txt")]:
        assert name in reasons, name


def test_the_package_asks_for_numpy_alone():
    assert [re.match(r"\w+", need)[0] for need in PROJECT["project"]["dependencies"]] == ["numpy"]


def test_version_is_the_same_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["project"]["version"]


def test_workflows_use_actions_of_exact_versions():
    for name, step in steps():
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", step["uses"]), name


def test_workflows_run_what_exists():
    found = [line for _, step in steps() for line in step.get("run", "").splitlines()]
    assert "./.ci/run" in found
    for line in found:
        if line.startswith("make "):
            assert line.split()[1] in TARGETS, line
        else:
            assert line == "./.ci/run", line


def test_the_runner_can_be_run():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_hooks_download_nothing():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    for repository in hooks["repos"]:
        assert repository["repo"] == "local"
        for hook in repository["hooks"]:
            assert hook["language"] == "system"
