"""What every file of the repository keeps to: lengths of lines, functions and files, and sentences in docstrings."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MOST_LINES = 450
MOST_FUNCTION_LINES = 60
MOST_PARAMETERS = 8
MOST_COLUMNS = 120
LONG_FOR_A_REASON = [Path("crates/treefold/tests/suite/common/flits.rs"), Path("python/treefold/_core.pyi")]
"""The oracle of the packet simulator is one machine, read from top to bottom beside the paper; and the types of a
compiled module stand in one file."""

TRACKED = [
    Path(name)
    for name in subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
]
CODE = [path for path in TRACKED if path.suffix in (".py", ".pyi", ".rs") and (ROOT / path).exists()]
TYPESCRIPT = [path for path in TRACKED if path.match("viewer/src/**/*.ts") and (ROOT / path).exists()]
TYPESCRIPT += [path for path in TRACKED if path.match("viewer/src/*.ts") and (ROOT / path).exists()]
PYTHON = [path for path in CODE if path.suffix == ".py"]
PROSE = [path for path in TRACKED if path.suffix == ".md" and (ROOT / path).exists()]

FRAGMENT = re.compile(r"(Of|By|The same|Those|With|Like|As|Same)\b")
"""No docstring or help text begins so: it would have no subject."""
QUESTION = re.compile(r"(What|Where|How|Which|Who|When|Why)\b")
"""A function's docstring does not begin so: it says what the function does."""


def text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def functions_of(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    if path.suffix == ".pyi":
        return []
    return [
        each for each in ast.walk(ast.parse(text(path))) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    own = [each for each in named if each.arg not in ("self", "cls")]
    return len(own) + (arguments.vararg is not None) + (arguments.kwarg is not None)


def rust_functions(path: Path) -> list[tuple[str, int, int]]:
    """Return name, lines and parameters of each function, by indentation as rustfmt leaves it."""
    lines = text(path).split("\n")
    found = []
    for start, line in enumerate(lines):
        match = re.match(r"( *)(?:pub(?:\([a-z]+\))? )?(?:const )?fn (\w+)", line)
        if match is None or line.rstrip().endswith(";"):
            continue
        closing = f"{match[1]}}}"
        end = next((at for at in range(start, len(lines)) if lines[at] == closing), start)
        found.append((match[2], end - start + 1, _rust_parameters("\n".join(lines[start : end + 1]))))
    return found


def typescript_functions(path: Path) -> list[tuple[str, int, int]]:
    """Return name, lines and parameters of each function that has a name, at any level."""
    code, found = text(path), []
    for match in re.finditer(r"\bfunction\*? (\w+)", code):
        opened = code.index("(", match.end())
        closed = _closing(code, opened)
        body = code.index("{\n", closed)
        lines = code.count("\n", match.start(), _closing(code, body)) + 1
        found.append((match[1], lines, _parts(code[opened + 1 : closed])))
    return found


def _closing(code: str, opened: int) -> int:
    """Return the place of the bracket that closes the one at a place, by counting; texts hold pairs of them."""
    pairs = {"(": ")", "{": "}"}
    bracket, depth = code[opened], 0
    for at in range(opened, len(code)):
        depth += (code[at] == bracket) - (code[at] == pairs[bracket])
        if depth == 0:
            return at
    raise AssertionError(f"the bracket at {opened} is not closed")


def _parts(listed: str) -> int:
    """Count the parts between commas that stand in no bracket."""
    depth, parts, part = 0, [], ""
    for character in listed.replace("=>", ""):
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            parts, part = [*parts, part], ""
        else:
            part += character
    return len([each for each in [*parts, part] if each.strip()])


def _rust_parameters(function: str) -> int:
    """Count the parameters of a function beside self and the interpreter's token."""
    function = function.replace("->", "")
    opened = function.index("(", re.search(r"fn \w+(<[^(]*>)?\(", function).end() - 1)
    depth, parts, part = 0, [], ""
    for character in function[opened + 1 :]:
        if character == ")" and depth == 0:
            break
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            parts, part = [*parts, part], ""
        else:
            part += character
    named = [each.strip() for each in [*parts, part]]
    own = [each for each in named if each and not re.match(r"(&?(mut )?('\w+ )?(mut )?self\b|py: Python)", each)]
    return len(own)


@pytest.mark.parametrize("path", [path for path in [*CODE, *TYPESCRIPT] if path not in LONG_FOR_A_REASON], ids=str)
def test_files_are_short(path):
    assert len(text(path).splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", [*CODE, *TYPESCRIPT], ids=str)
def test_functions_are_short_and_take_few_parameters(path):
    if path.suffix == ".rs":
        measured = rust_functions(path)
    elif path.suffix == ".ts":
        measured = typescript_functions(path)
    else:
        measured = [
            (each.name, (each.end_lineno or 0) - each.lineno + 1, parameters(each)) for each in functions_of(path)
        ]
    assert [each for each in measured if each[1] > MOST_FUNCTION_LINES or each[2] > MOST_PARAMETERS] == []


@pytest.mark.parametrize("path", [*CODE, *TYPESCRIPT, *PROSE], ids=str)
def test_lines_are_short(path):
    lines = text(path).splitlines()
    is_table = re.compile(r"\s*\|")
    long = [line for line in lines if len(line) > MOST_COLUMNS and not is_table.match(line) and "http" not in line]
    assert long == []


@pytest.mark.parametrize("path", PROSE, ids=str)
def test_rows_of_tables_have_lines_of_their_own(path):
    """Whoever rewraps a paragraph may take a table for one."""
    assert [line for line in text(path).splitlines() if re.search(r"\S \|[-:| ]*--", line)] == []


@pytest.mark.parametrize("path", PYTHON, ids=str)
def test_docstrings_are_sentences(path):
    tree = ast.parse(text(path))
    strings = [
        each.value.value
        for each in ast.walk(tree)
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str)
    ]
    functions = [ast.get_docstring(each) or "" for each in functions_of(path)]
    wrong = [each for each in strings if FRAGMENT.match(each)] + [each for each in functions if QUESTION.match(each)]
    assert [each.split("\n")[0] for each in wrong] == []


DOC_COMMENT = re.compile(r"^ *//[/!] ?(.*)(?:\n *//[/!].*)*", re.MULTILINE)
"""A block of Rust's doc comments, and its first line."""


@pytest.mark.parametrize("path", [path for path in CODE if path.suffix == ".rs"], ids=str)
def test_doc_comments_begin_with_a_sentence(path):
    assert [first for first in DOC_COMMENT.findall(text(path)) if FRAGMENT.match(first)] == []


FLAG = re.compile(r"(^|[\s(`'\"])--[a-z]")
"""An option of the command line."""


def texts_of(path: Path) -> list[str]:
    """Returns the texts in the code of a library's file, without documentation, and without the `flag` of a field."""
    if path.suffix == ".rs":
        lines = text(path).partition("#[cfg(test)]")[0].split("\n")
        return [line for line in lines if not line.lstrip().startswith("//")]
    tree = ast.parse(text(path))
    # A text that is a statement of its own is a docstring.
    apart = [each.value for each in ast.walk(tree) if isinstance(each, ast.Expr)]
    apart += [each.value for each in ast.walk(tree) if isinstance(each, ast.keyword) and each.arg == "flag"]
    texts = [each for each in ast.walk(tree) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return [each.value for each in texts if each not in apart]


LIBRARY = [path for path in CODE if path.match("crates/*/src/**/*.rs") or path.match("crates/*/src/*.rs")]
LIBRARY += [path for path in PYTHON if path.parts[:2] == ("python", "treefold") and "cli" not in path.parts]


def test_the_library_names_parameters_and_only_the_command_line_names_options():
    assert len(LIBRARY) > 250
    assert [(str(path), each) for path in LIBRARY for each in texts_of(path) if FLAG.search(each)] == []


def test_the_search_for_options_finds_them():
    for shown in ("take --overlap bucket", "--iters 0: must be", "drop it (--adapt)", "use '--json'"):
        assert FLAG.search(shown)
    for plain in ("a--b", "paris -- london", "-o", "take overlap='bucket'"):
        assert not FLAG.search(plain)
