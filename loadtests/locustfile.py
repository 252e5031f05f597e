"""hitcurve's traffic for people who already use Locust.

    locust -f loadtests/locustfile.py --host http://127.0.0.1:8000
    locust -f loadtests/locustfile.py --host http://127.0.0.1:8000 --headless -u 8 -t 60s --tags rag
    locust -f loadtests/locustfile.py --host http://127.0.0.1:8000 --processes 4 Unique

Without a class or a tag the five scenes run beside each other. The tab "Hit rate and TTFT" shows what the engine's
prefix cache did; the same is in the HTML report and, with --results FILE, in JSON. docs/loadtests.md has the rest.
"""

from locust import events

from hitcurve_loadtests.locust_mode.listeners import listen
from hitcurve_loadtests.locust_mode.users import user_of

OpenChat = user_of("open-chat", "chat", "scene")
RagShuffled = user_of("rag-shuffled", "rag", "scene")
CustomerService = user_of("customer-service", "shared", "scene")
CopilotEditsEnd = user_of("copilot-edits-end", "copilot", "scene")
Agent = user_of("agent", "chat", "scene")

MultiTurn = user_of("multi-turn", "chat")
RagFixedOrder = user_of("rag-fixed-order", "rag")
CopilotEditsMiddle = user_of("copilot-edits-middle", "copilot")
CopilotEditsHead = user_of("copilot-edits-head", "copilot")
SharedSystemPrompt = user_of("shared-system-prompt", "shared")
ExactRepeats = user_of("exact-repeats", "shared")
Unique = user_of("unique", "cold")
ShortPrefixes = user_of("short-prefixes", "cold")
Tenants = user_of("tenants", "isolated")
AdaptersUniform = user_of("adapters-uniform", "isolated")
AdaptersZipf = user_of("adapters-zipf", "isolated")
AdaptersSticky = user_of("adapters-sticky", "isolated")

listen(events, default_users=(OpenChat, RagShuffled, CustomerService, CopilotEditsEnd, Agent))
