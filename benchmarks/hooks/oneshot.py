"""What a command hook does in other hosts: started for each call, asked once."""

import json
import sys

json.load(sys.stdin)
print(json.dumps({"action": "continue"}))
