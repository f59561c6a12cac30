"""The command line as people meet it: help, completion, names that are nearly right, options given twice."""

import os
import shutil
import subprocess
import sys

import pytest
import typer

import treefold
from commands import TREEFOLD, command, output, printed, refused
from treefold.cli.main import app, main
from treefold.cli.wording import in_options


@pytest.mark.parametrize("arguments", [(), ("-h",), ("--help",), ("plan", "-h"), ("run", "--help")])
def test_help_is_where_people_look_for_it(arguments):
    result = command(*arguments)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: treefold")


@pytest.mark.parametrize("adapt", ["ring:4 --adapt", "ring:4 --adapt same", "ring:4 --Adapt auto", "--adapt ring:4"])
def test_adapt_stands_alone_or_says_how(adapt):
    result = command("run", *adapt.split(), "--local", "4", "--transport", "threads")
    refusal = "error: --adapt works over tcp, not over threads; drop it or choose --transport tcp\n"
    assert (result.returncode, result.stderr) == (2, refusal)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("help", "'help' is not a command; write treefold --help"),
        ("pln ring:4", "command 'pln' is unknown; did you mean plan?"),
        ("plan ring:4 --sise 1MiB", "No such option: --sise; did you mean --size?"),
        ("simulate ring:4 --vcs 2", "No such option: --vcs; did you mean --set virtual_channels=VALUE?"),
        ("simulate ring:4 --zebra 2", "No such option: --zebra; see treefold simulate --help"),
        ("plan tours:4x4", "did you mean torus:4x4?"),
        ("plan cluster:node=2", "key 'node' is unknown; did you mean nodes?"),
        ("plan ring:4 -a rings", "algorithm 'rings' is unknown; did you mean ring or ring2d?"),
        ("plan ring:4 --simulator flaw", "simulator 'flaw' is unknown; did you mean flow?"),
        ("plan ring:4 --collective al-gather", "did you mean all-gather?"),
        ("plan ring:4 --neighbors listed", "did you mean --neighbor-order?"),
        ("plan ring:4 --neighbor-order reverse", "did you mean reversed?"),
        ("train resnet5 ring:4", "model 'resnet5' is unknown; did you mean resnet50 or resnet50:paper?"),
        ("train resnet50 ring:4 --accelerator h10", "accelerator 'h10' is unknown; did you mean h100?"),
        ("train resnet50 ring:4 --overlap buckets", "did you mean bucket?"),
        ("reproduce fig9", "figure 'fig9' is unknown; did you mean mtree/fig9 or multitree/fig9 or in-network/fig9?"),
        ("simulate ring:4 --link-model hockny", "did you mean hockney?"),
        ("simulate ring:4 --flow-control message", "did you mean --set flow_control=VALUE?"),
        ("simulate ring:4 --set flow_control=massage", "did you mean message?"),
        ("simulate ring:4 --set vcs=2", "machine option 'vcs' is unknown; did you mean virtual_channels?"),
    ],
)
def test_unknown_names_bring_what_may_have_been_meant(arguments, expected):
    result = command(*arguments.split())
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert expected in result.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("plan Torus:4x4 -a Multi-Tree --Collective ALL_GATHER", "multitree"),
        ("simulate ring:4 -a Halving_Doubling --MODEL Flow --link_model Hockney", "latency occupies links (hockney)"),
        ("train AlexNet ring:4 -a RING --accelerator H100 --overlap Layer", "4 x h100; all-reduces layer by layer"),
        ("PLAN ring:4 -a ring", "algorithm   ring"),
    ],
)
def test_case_hyphens_and_underscores_do_not_matter(arguments, expected):
    result = command(*arguments.split())
    assert result.returncode == 0, result.stderr
    assert expected in result.stdout


OPTIONS = [
    (name, option)
    for name, command in typer.main.get_command(app).commands.items()
    for option in command.params
    if option.param_type_name == "option" and not option.multiple and not (option.is_flag and not option.secondary_opts)
]


@pytest.mark.parametrize(("command", "option"), OPTIONS, ids=lambda each: getattr(each, "name", each))
def test_an_option_that_takes_one_value_is_refused_twice(command, option, monkeypatch, capsys):
    flag, value = option.opts[0], [] if option.is_flag else ["1"]
    wanted = [*[each for each in ("x", "y") if command not in ("probe", "check")][: 2 if command == "train" else 1]]
    monkeypatch.setattr(sys, "argv", ["treefold", command, *wanted, flag, *value, flag, *value])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert f"{flag}" in (told := capsys.readouterr().err)
    assert "is given twice; give it once" in told


def test_what_nobody_expects_is_quoted_in_part():
    result = command("plan", "ring:4", "\x1b" + "x" * 100_000)
    assert result.returncode == 2
    assert len(result.stderr) < 3000
    assert result.stderr.rstrip("\n").isprintable()


def test_a_word_where_a_number_belongs_is_quoted():
    result = command("plan", "ring:4", "--root", "paris")
    expected = "error: --root: 'paris' is not a valid integer; see treefold plan --help\n"
    assert (result.returncode, result.stderr) == (2, expected)


def test_options_that_say_the_same_twice_or_are_lists_may_be_given_again():
    result = command("compare", "ring:4", "-a", "ring", "-a", "dbtree,ring", "--sizes", "1MiB", "--json", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.count('"algorithm"') == 2


def test_the_old_name_of_an_option_is_taken_but_not_shown():
    asked = ("simulate", "ring:4", "-a", "ring", "--size", "1MiB")
    old, new = (command(*asked, name, "flow") for name in ("--model", "--simulator"))
    assert (old.returncode, old.stderr) == (0, "") and old.stdout == new.stdout
    for name in ("plan", "simulate", "compare", "train"):
        shown = command(name, "--help").stdout
        assert "--simulator" in shown and "--model " not in shown


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["treefold", "pl"], "plan"),
        (["treefold", "plan", "ring:4", "--alg"], "--algorithm"),
        (["treefold", "compare", "ring:4", "-a", "multit"], "multitree"),
        (["treefold", "train", "resnet50:"], "resnet50:paper"),
        (["treefold", "simulate", "ring:4", "--simulator", "p"], "packet"),
        (["treefold", "simulate", "ring:4", "--mod"], ""),
    ],
)
def test_bash_completes(words, expected):
    script = 'source <(treefold --show-completion) && _treefold_completion treefold && echo "${COMPREPLY[*]}"'
    typed = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; {script}"
    path = f"{TREEFOLD.parent}:{os.environ['PATH']}"
    result = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, check=False, env={"PATH": path})
    assert (result.stdout.strip(), result.stderr) == (expected, "")


def test_a_python_that_is_too_old_is_named_in_one_line():
    program = "import sys; sys.version_info = (3, 9); sys.version = '3.9.1 (main)'; import treefold"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    refusal = "error: treefold needs Python 3.10 or newer, and this is Python 3.9.1\n"
    assert (done.returncode, done.stderr) == (1, refusal)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("take overlap='bucket', or drop bucket_bytes", "take --overlap bucket, or drop --bucket"),
        ("batch must be at least 1, got 0", "--batch must be at least 1, got 0"),
        ("a larger model_parallel", "a larger --model-parallel"),
        ("drop model_parallel=4, or take", "drop --model-parallel 4, or take"),
        ("give them one, such as bandwidth_Bps=1.25e9", "give them one, such as --bandwidth 1.25GB/s"),
        ("allow at least most_bytes=19922944", "allow at least --bytes 19MiB"),
        ("1 link takes 0s; set latency_s", "1 link takes 0s; set --latency"),
        ("adapt=True works over tcp", "--adapt works over tcp"),
        ("raise them with treefold.Machine(buffer_flits=N)", "raise them with --set buffer_flits=N"),
        ("is_whole=True shows them; as_dict() lists them", "--all shows them; --json lists them"),
        ("on this machine alone, runtime.local(4) will do", "on this machine alone, --local 4 will do"),
        # Options of a machine, fields of files and names of people are not the command line's.
        ("barrier=true has no effect", "barrier=true has no effect"),
        ("x.json: links[0]: bandwidth_Bps must be above 0", "x.json: links[0]: bandwidth_Bps must be above 0"),
        ("node 'model_parallel' is unknown", "node 'model_parallel' is unknown"),
        ("layer fc: batch must be whole", "layer fc: batch must be whole"),
    ],
)
def test_the_command_line_says_options_where_the_library_says_parameters(said, shown):
    assert in_options(said) == shown


def test_the_table_of_algorithms_has_a_hundred_columns_at_most():
    lines = printed("algorithms").splitlines()
    assert max(map(len, lines)) <= 100
    assert [line.split()[0] for line in lines if not line.startswith("#")] == ["algorithm", *treefold.algorithms()]


@pytest.mark.parametrize("name", treefold.algorithms())
def test_all_is_told_of_an_algorithm(name):
    known = treefold.algorithms()[name]
    text = printed("algorithms", name.upper())
    assert max(map(len, text.splitlines())) <= 100
    told = " ".join(text.split())
    assert all(each in told for each in (name, known.summary, known.source, known.fits, known.cost))
    assert all(f"--{each.replace('_', '-')}" in told for each in known.options)
    assert output("algorithms", name) == output("algorithms")[name] == known.as_dict()


def test_an_unknown_algorithm_is_refused():
    assert "'rings' is unknown; did you mean ring or ring2d?" in refused("algorithms", "rings")


def test_an_algorithm_that_reads_the_simulator_may_be_named_with_one():
    readers = [name for name, each in treefold.algorithms().items() if each.reads_simulator]
    assert readers == ["innet"]
    assert printed("plan", "dgx2:planes=1", "-a", "innet", "--simulator", "packet")
    assert "only auto compares plans, but ring is named" in refused(
        "plan", "ring:4", "-a", "Ring", "--simulator", "flow"
    )
