"""The commands of `picohook`: each file is the command of its name, as `app`. What several commands need is one folder up."""
