"""Operations that move values: gathers, transposes, and every other by a table of copies."""
