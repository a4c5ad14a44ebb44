"""Reload: a running host applies a changed configuration.

Hooks that did not change are kept. A hook that changed is started beside the old one and replaces it when it is ready. All
hooks are replaced in one step, so that every call asks the old hook or the new one. Chains that began before may still ask the
old hook; it is *drained* until they are over, and then stopped.
"""
