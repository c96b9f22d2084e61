"""One task: its moves, its goal, what is done about it, and what ended its runs."""
