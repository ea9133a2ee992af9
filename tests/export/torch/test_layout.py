"""Long statements in lines: each means what it meant in one."""

from __future__ import annotations

import ast

import pytest

from uncork.export.torch.layout import WIDTH, laid_out

LONG = " + ".join(f"(tensor_{i}.shape[2] * tensor_{i}.shape[3])" for i in range(4))


@pytest.mark.parametrize(
    "statement",
    [
        f"part = tensor[:, ({LONG}):({LONG}) + ({LONG})]",
        f"part = tensor[:, {LONG}:({LONG}) + (other.shape[2] * other.shape[3])]",
        f"total = -({LONG})",
        f"total = scale*({LONG})",
        f"names = [({LONG})]",
        f"pair = torch.cat(({LONG},), 0)",
        f"first = values[({LONG})]",
        f"first = values[{LONG}]",
        f"many = (first[{LONG}])[({LONG})]",
    ],
)
def test_lines_mean_what_the_statement_means(statement: str) -> None:
    lines = laid_out(statement, 4)
    assert len(lines) > 1 and len(statement) > WIDTH
    assert ast.dump(ast.parse("if x:\n" + "\n".join(lines))) == ast.dump(
        ast.parse(f"if x:\n    {statement}")
    )
