"""What a simulation shows: figures, tables, CSV files and a page."""
