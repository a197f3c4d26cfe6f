"""One request as every API, gateway, tracer and engine writes it down, each form after its documentation.

The request has the model "m", a system prompt, a question, and, where the form has room for them, a tool, its call and
its result. Read in November 2026.
"""

import json

SYSTEM, QUESTION, RESULT = "Be brief.", "Weather in Paris?", "rainy, 57°F"
TOOL = {"type": "function", "name": "get_weather", "description": "Get the weather", "parameters": {"type": "object"}}
WHOLE = (SYSTEM, QUESTION, RESULT, "get_weather", "Paris")

CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
MESSAGES = [
    {"role": "system", "content": SYSTEM},
    {"role": "user", "content": QUESTION},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": RESULT},
]
BODY = {"model": "m", "messages": MESSAGES, "tools": [TOOL], "temperature": 0}

# github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/non-normative/examples-llm-calls.md
OTEL_MESSAGES = [
    {"role": "user", "parts": [{"type": "text", "content": QUESTION}]},
    {"role": "assistant", "parts": [
        {"type": "reasoning", "content": "I ask."},
        {"type": "tool_call", "id": "call_1", "name": "get_weather", "arguments": {"city": "Paris"}}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": RESULT}]},
]  # fmt: skip
OTEL = {
    "gen_ai.provider.name": "openai",
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "gen_ai.request.temperature": 0,
    "gen_ai.response.model": "m-2026",
    "gen_ai.conversation.id": "conv_5",
    "gen_ai.usage.input_tokens": 97,
    "gen_ai.usage.cache_read.input_tokens": 47,
    "gen_ai.system_instructions": [{"type": "text", "content": SYSTEM}],
    "gen_ai.input.messages": OTEL_MESSAGES,
    "gen_ai.tool.definitions": [TOOL],
}
SPAN = {"name": "chat m", "traceId": "4bf92f35", "spanId": "00f067aa", "startTimeUnixNano": "1770000000000000000"}
OTEL_TEXTS = {key: json.dumps(value) if isinstance(value, list) else value for key, value in OTEL.items()}


def otlp(value):
    """A value as OTLP's JSON has it (opentelemetry.io, OTLP specification): whole numbers are texts."""
    if isinstance(value, list):
        return {"arrayValue": {"values": [otlp(item) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": otlp(item)} for key, item in value.items()]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def otlp_span(attributes):
    return {**SPAN, "attributes": [{"key": key, "value": otlp(value)} for key, value in attributes.items()]}


# OpenLLMetry, before it took over these messages: traceloop/openllmetry, opentelemetry-semantic-conventions-ai
NUMBERED = {
    "gen_ai.system": "OpenAI",
    "gen_ai.request.model": "m",
    "gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": SYSTEM,
    "gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": QUESTION,
    "gen_ai.prompt.2.role": "assistant", "gen_ai.prompt.2.tool_calls.0.id": "call_1",
    "gen_ai.prompt.2.tool_calls.0.name": "get_weather",
    "gen_ai.prompt.2.tool_calls.0.arguments": '{"city": "Paris"}',
    "gen_ai.prompt.3.role": "tool", "gen_ai.prompt.3.content": RESULT,
    "llm.request.functions.0.name": "get_weather", "llm.request.functions.0.parameters": '{"type": "object"}',
    "gen_ai.completion.0.content": "It rains.",
    "gen_ai.usage.prompt_tokens": 97,
}  # fmt: skip


def langchain(kind, name, **said):
    """A message as `langchain_core.load.dumps` writes it."""
    kwargs = {**said, "type": kind, "response_metadata": {"token_usage": 7}, "id": "run-9"}
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": kwargs}


LC_CALL = {"name": "get_weather", "args": {"city": "Paris"}, "id": "call_1", "type": "tool_call"}
LC_MESSAGES = [
    langchain("system", "SystemMessage", content=SYSTEM),
    langchain("human", "HumanMessage", content=QUESTION),
    langchain("ai", "AIMessage", content="", tool_calls=[LC_CALL]),
    langchain("tool", "ToolMessage", content=RESULT, tool_call_id="call_1"),
]
RUN = {  # docs.langchain.com/langsmith/run-data-format; the extra parts as langchain-core's tracer sets them
    "id": "1", "name": "ChatOpenAI", "run_type": "llm", "session_id": "a project", "trace_id": "2",
    "start_time": "2026-02-02T10:00:00", "inputs": {"messages": [LC_MESSAGES]}, "outputs": {"generations": []},
    "extra": {"invocation_params": {"model": "m", "temperature": 0, "tools": [TOOL]}, "metadata": {"thread_id": "t"}},
}  # fmt: skip
DICTS = [{"type": kwargs["type"], "data": kwargs} for kwargs in (message["kwargs"] for message in LC_MESSAGES)]
LITELLM = {  # docs.litellm.ai/docs/proxy/logging_spec
    "id": "1", "trace_id": "2", "call_type": "acompletion", "model": "m", "startTime": 1770000000.5,
    "messages": MESSAGES, "model_parameters": {"tools": [TOOL], "temperature": 0}, "prompt_tokens": 97,
    "metadata": {"usage_object": {"prompt_tokens": 97, "prompt_tokens_details": {"cached_tokens": 47}}},
}  # fmt: skip
LANGFUSE = {  # api.reference.langfuse.com, an observation
    "id": "1", "traceId": "2", "type": "GENERATION", "name": "chat", "startTime": "2026-02-02T10:00:00Z",
    "model": "m", "modelParameters": {"temperature": 0}, "input": {"messages": MESSAGES, "tools": [TOOL]},
    "output": {"role": "assistant", "content": "It rains."}, "usageDetails": {"input": 50, "input_cached_tokens": 47},
}  # fmt: skip
BEDROCK = {  # docs.aws.amazon.com/bedrock/latest/userguide, an example of an invocation log
    "schemaType": "ModelInvocationLog", "timestamp": "2026-02-02T10:00:00Z", "operation": "InvokeModel",
    "modelId": "m", "input": {"inputContentType": "application/json", "inputTokenCount": 50, "inputBodyJson": {
        "anthropic_version": "bedrock-2023-05-31", "system": SYSTEM, "messages": MESSAGES[1:], "tools": [TOOL]}},
    "output": {"outputBodyJson": {"usage": {"input_tokens": 50, "cache_read_input_tokens": 47}}},
}  # fmt: skip
GEMINI = {  # ai.google.dev/api/generate-content
    "model": "m",
    "systemInstruction": {"parts": [{"text": SYSTEM}]},
    "contents": [
        {"role": "user", "parts": [{"text": QUESTION}]},
        {"role": "model", "parts": [{"functionCall": {"name": "get_weather", "args": {"city": "Paris"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "get_weather", "response": {"result": RESULT}}}]},
    ],
    "tools": [{"functionDeclarations": [TOOL]}],
    "generationConfig": {"temperature": 0},
}
RESPONSES = {  # developers.openai.com/api/reference/responses
    "model": "m", "instructions": SYSTEM, "tools": [TOOL],
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
        {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city": "Paris"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": RESULT},
    ],
}  # fmt: skip

FORMS = {
    "body": BODY,
    "OpenAI batch": {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": BODY},
    "responses": RESPONSES,
    "a JSON text": {"id": 1, "request_body": json.dumps(BODY)},
    "OpenTelemetry": {**SPAN, "attributes": OTEL},
    "OpenTelemetry, texts": {**SPAN, "attributes": OTEL_TEXTS},
    "OpenTelemetry, flat": {"timestamp": "2026-02-02T10:00:00Z", **OTEL_TEXTS},
    "OTLP": otlp_span(OTEL),
    "OTLP, texts": otlp_span(OTEL_TEXTS),
    "OpenLLMetry": {**SPAN, "attributes": NUMBERED},
    "LangSmith": RUN,
    "LangSmith, one list": {**RUN, "inputs": {"messages": LC_MESSAGES}},
    "LangSmith, dicts": {**RUN, "inputs": {"messages": DICTS}},
    "LangSmith, OpenAI's": {**RUN, "extra": {}, "inputs": BODY},
    "LiteLLM": LITELLM,
    "LiteLLM, request": {**LITELLM, "proxy_server_request": {"url": "/v1", "method": "POST", "body": BODY}},
    "LiteLLM, spend": {"request_id": "1", "messages": {}, "proxy_server_request": json.dumps(BODY), "model": "m"},
    "Langfuse": LANGFUSE,
    "Langfuse, list": {**LANGFUSE, "input": [*MESSAGES, {"role": "tool", "content": "get_weather"}]},
    "Langfuse, text": {**LANGFUSE, "input": json.dumps(LANGFUSE["input"])},
    "Bedrock": BEDROCK,
    "Gemini": GEMINI,
    "a log of one's own": {
        "traceId": "4",
        "type": "request",
        "model": "m",
        "input": {"messages": MESSAGES, "tools": [TOOL]},
    },
    "a span of a library": {**SPAN, "attributes": {**OTEL, "gen_ai.operation.name": "messages.create"}},
}
OTHERS = {  # of the same logs, but no call of a model with its prompt
    "an agent's span": {**SPAN, "attributes": {**OTEL, "gen_ai.operation.name": "invoke_agent"}},
    "a span without content": {**SPAN, "attributes": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}},
    "a chain": {**RUN, "run_type": "chain"},
    "a tool's run": {**RUN, "run_type": "tool", "inputs": {"input": "{'city': 'Paris'}"}},
    "a step": {**LANGFUSE, "type": "SPAN"},
    "redacted": {"model_parameters": {}, "messages": None, "model": "m"},
    "a row to train on": {"instruction": "Sum up.", "input": "A text.", "output": "A sum."},
    "SGLang, without content": {"event": "request.received", "rid": "1", "obj": {"stream": False}},
    "a trace": {"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [1]},
    "a tool and its input": {"tool": "shell", "input": "ls -la"},
    "a trace of Langfuse": {"id": "1", "name": "chat", "input": "Why?", "output": "Because.", "sessionId": "s"},
    "speech": {"model": "tts-1", "input": "Hello", "voice": "alloy"},
    "embeddings": {"url": "/v1/embeddings", "body": {"model": "m", "input": ["a", "b"]}},
    "moderation": {"url": "/v1/moderations", "body": {"input": [{"type": "text", "text": "a"}]}},
    "a span cut off": {"gen_ai.operation.name": "chat", "gen_ai.input.messages": '[{"role": "user", "parts": [{"type'},
    "an observation cut off": {**LANGFUSE, "input": '{"messages": [{"role": "us'},
    "continued from a cached prefix": {**GEMINI, "cachedContent": "cachedContents/1"},
    "continued": {"model": "m", "input": "And?", "previous_response_id": "resp_1"},
    "continued from a stored prompt": {"prompt": {"id": "pmpt_1"}, "input": [{"role": "user", "content": "Hi"}]},
    "continued conversation": {"model": "m", "input": "And?", "conversation": {"id": "conv_1"}},
    "a document": {"title": "Report", "text": "It rains.", "sections": [{"text": "Hi"}]},
}
IDS = [151644, 8948, 198, 2610]
TOKENS = {  # OpenAI's completions; vLLM; SGLang's /generate, and its log with --log-requests-format json
    "OpenAI": {"model": "m", "prompt": IDS},
    "OpenAI, a batch of one": {"model": "m", "prompt": [IDS]},
    "vLLM": {"model": "m", "prompt": "<|im_start|>system", "prompt_token_ids": IDS},
    "SGLang": {"model": "m", "input_ids": IDS, "sampling_params": {"temperature": 0}},
    "SGLang, log": {"timestamp": "2026-02-02T10:00:00", "event": "request.received", "rid": "1",
                    "obj": {"rid": "1", "text": None, "input_ids": IDS, "model": "m", "sampling_params": {}}},
    "SGLang, the end": {"timestamp": "2026-02-02T10:00:03", "event": "request.finished", "rid": "1",
                        "obj": {"rid": "1", "text": "decoded", "input_ids": IDS, "model": "m", "sampling_params": {}},
                        "out": {"text": "Yes", "meta_info": {"prompt_tokens": 4, "cached_tokens": 3}}},
}  # fmt: skip
# github.com/vllm-project/vllm, vllm/entrypoints/logger.py, until 0.10 and since
VLLM = [
    "INFO 04-02 12:30:21 engine.py:280] Added request cmpl-1.",
    "INFO 04-02 12:30:23 logger.py:39] Received request cmpl-1: prompt: 'It\\'s\\n1 \"o\\'clock\"', params: Sampling"
    "Params(n=1, stop=[]), prompt_token_ids: [1, 22, 333], prompt_embeds shape: None, lora_request: None.",
    'DEBUG 11-02 12:30:24 [logger.py:44] Request cmpl-2 details: prompt: "It\'s", prompt_token_ids: [1, 22], '
    "prompt_embeds shape: None.",
    "INFO 11-02 12:30:24 [logger.py:50] Received request cmpl-2: params: SamplingParams(n=1), lora_request: None.",
    "INFO 11-02 12:30:25 logger.py:39] Received request cmpl-3: prompt: None, params: None, prompt_token_ids: None",
]
# github.com/sgl-project/sglang, request_logger.py, with --log-requests-format text
SGLANG = [
    "[2026-02-02 10:00:00] Receive: obj=GenerateReqInput(rid='a', text='It\\'s', input_ids=None, stream=False)",
    "[2026-02-02 10:00:00] Receive: obj=GenerateReqInput(rid='b', text=None, input_ids=[1, 22], stream=False)",
    "[2026-02-02 10:00:01] Finish: obj=GenerateReqInput(rid='a', text='It\\'s', input_ids=None), out={'text': 'Yes'}",
    "[2026-02-02 10:00:02] Receive: obj=GenerateReqInput(rid='c', text='It' ... 's', input_ids=None, stream=False)",
    "[2026-02-02 10:00:03] Receive: obj=GenerateReqInput(rid='d', text=None, input_ids=[1, 2] ... [8, 9], top_k=1)",
    "[2026-02-02 10:00:04] Receive: obj=GenerateReqInput(rid='e', text='Hi', input_ids=None, lora_path='ad')",
]
