"""What a job manager needs of its neighbours, in the model's terms. `jobmgr.clients` makes the calls."""
