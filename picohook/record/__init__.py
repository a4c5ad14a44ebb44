"""Recording what a host asks and is answered, and asking it again."""
