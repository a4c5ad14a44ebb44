"""Child processes: how to start one (`plan`), one process (`child`), and one that is run to its end (`runner`)."""
