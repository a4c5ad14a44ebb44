"""Child processes: how to start one (`plan`), one process (`child`), and the processes of one hook in turn (`supervisor`)."""
