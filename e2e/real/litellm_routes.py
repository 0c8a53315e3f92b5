"""Starts LiteLLM's proxy in front of an OpenAI-style server.

    python litellm_routes.py ROUTES.yaml UPSTREAM PORT

Writes ROUTES.yaml with two routes to UPSTREAM, `tiny` for chat and `tiny-text` for completions, and
becomes the proxy. It demands the key `sk-tokometer`.
"""

import os
import sys
from pathlib import Path

ROUTES = """model_list:
  - model_name: tiny
    litellm_params: {{model: openai/tiny, api_base: "{upstream}/v1", api_key: none}}
  - model_name: tiny-text
    litellm_params: {{model: text-completion-openai/tiny, api_base: "{upstream}/v1", api_key: none}}
general_settings: {{master_key: sk-tokometer}}
litellm_settings: {{num_retries: 0, telemetry: false}}
"""

routes, upstream, port = sys.argv[1:]
Path(routes).write_text(ROUTES.format(upstream=upstream))
proxy = str(Path(sys.executable).with_name("litellm"))
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.execv(proxy, [proxy, "--config", routes, "--host", "127.0.0.1", "--port", port])
