"""Examples of j-cli's own document, which several tests read."""

from __future__ import annotations

EXAMPLE = r"""
pre_send_message:
  - command: "python3 ~/.jdata/agent/hooks/inject_time.py"
    timeout: 5
    on_error: skip
session_start:
  - command: "echo '{\"inject_messages\": [{\"role\": \"user\", \"content\": \"当前用户: jack\"}]}'"
pre_tool_execution:
  - type: llm
    prompt: |
      审查工具调用是否安全:工具={{tool_name}} 参数={{tool_arguments}}
      如果不安全,返回 {"action":"skip"},否则返回 {}
    filter:
      tool_matcher: "Bash|Shell"
"""
"""The example of a configuration."""
MESSAGE_CHECK = """
pre_send_message:
  - type: llm
    prompt: |
      审查用户消息是否合规:{{user_input}}
      如有违规返回 action=stop 和 retry_feedback。
    model: gpt-4o-mini
    timeout: 15
    retry: 1
"""
"""Example 2: a model looks at messages."""
