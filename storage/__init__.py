"""What is kept: the repositories as ports, and the databases behind them."""
