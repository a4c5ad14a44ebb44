"""A configuration that changed, taken over by a host that goes on serving.

What did not change goes on as it is. What changed is started beside the old one, and takes its place when it is ready: all
seats change hands in one step, so that at no time neither the old hook nor the new one is asked. The chains that began
before that step may still ask the old one; once they are over it is *drained*, and is stopped.
"""

from .source import Source as Source
from .takeover import Reloader as Reloader
from .watch import watch as watch
