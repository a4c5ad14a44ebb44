"""The commands of `picohook`: each file has the command of its name, as `app`. Their shared code is one folder up."""
