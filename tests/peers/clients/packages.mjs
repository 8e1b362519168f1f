// Runs the client packages of npm against a recorder (recorder.py) at KVICK_URL. Prints one line of JSON per check.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

// The packages are in FOLDER/node_modules.
const require = createRequire(path.join(process.env.FOLDER, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { embedMany, generateText, Output, stepCountIs, streamText, tool } = await load("ai");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
const { createOpenAI } = await load("@ai-sdk/openai");
const { createAnthropic } = await load("@ai-sdk/anthropic");
const { default: OpenAI } = await load("openai");
const { default: Anthropic } = await load("@anthropic-ai/sdk");
const { Ollama } = await load("ollama");
const { z } = await load("zod");

const url = process.env.KVICK_URL;
const apiKey = "none";
const SAID = process.env.KVICK_SAYS;
const prompt = "Heads?";
const messages = [{ role: "user", content: prompt }];
const Flip = z.object({ heads: z.boolean() });
const SCHEMA = { type: "object", properties: { heads: { type: "boolean" } }, required: ["heads"], additionalProperties: false };

// ---- the AI SDK, through each of its providers ----

async function text(model) {
  const { text, usage } = await generateText({ model, prompt });
  assert.equal(text, SAID);
  assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0);
}

async function stream(model) {
  const result = streamText({ model, prompt, onError: ({ error }) => { throw error; } });
  let all = "";
  for await (const piece of result.textStream) all += piece;
  assert.equal(all, SAID);
  assert.equal(await result.finishReason, "stop");
}

async function tools(model, run) {
  const heads = [];
  const flip = tool({ description: "Flip a coin", inputSchema: Flip, execute: async (input) => { heads.push(input.heads); return "heads"; } });
  const result = run({ model, prompt, tools: { flip }, stopWhen: stepCountIs(3) });
  assert.equal(await (await result).text, SAID);
  assert.deepEqual(heads, [true]);
}

async function object(model) {
  const { output } = await generateText({ model, prompt, output: Output.object({ schema: Flip }) });
  assert.equal(typeof output.heads, "boolean");  // Anthropic's provider forces a call, so the value is random
}

async function embeddings(model) {
  const { embeddings } = await embedMany({ model, values: ["a", "b"] });
  assert.equal(embeddings.length, 2);
}

function ofSdk(model) {
  return {
    "generateText": () => text(model),
    "streamText": () => stream(model),
    "tools": () => tools(model, generateText),
    "tools, streamed": () => tools(model, streamText),
    "structured output": () => object(model),
  };
}

const compatible = createOpenAICompatible({ name: "kvick", baseURL: `${url}/v1`, apiKey, supportsStructuredOutputs: true });
const openaiProvider = createOpenAI({ baseURL: `${url}/v1`, apiKey });
const anthropicProvider = createAnthropic({ baseURL: `${url}/v1`, apiKey });

// ---- the APIs' own packages ----

const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: url, apiKey, maxRetries: 0 });
const ollama = new Ollama({ host: url });
const model = "kvick";
const chatTool = { type: "function", function: { name: "flip", parameters: SCHEMA } };

async function openaiTools() {
  const first = (await openai.chat.completions.create({ model, messages, tools: [chatTool] })).choices[0].message;
  assert.deepEqual(JSON.parse(first.tool_calls[0].function.arguments), { heads: true });
  const told = [...messages, first, { role: "tool", tool_call_id: first.tool_calls[0].id, content: "heads" }];
  const stream = openai.chat.completions.stream({ model, messages: told, tools: [chatTool] });
  assert.equal((await stream.finalChatCompletion()).choices[0].message.content, SAID);
}

async function openaiResponses() {
  const stream = openai.responses.stream({ model, input: prompt });
  assert.equal((await stream.finalResponse()).output_text, SAID);
  const form = { type: "json_schema", name: "flip", schema: SCHEMA, strict: true };
  const parsed = await openai.responses.parse({ model, input: prompt, text: { format: form } });
  assert.deepEqual(JSON.parse(parsed.output_text), { heads: true });
  const called = await openai.responses.create({ model, input: prompt, tools: [{ type: "function", strict: true, ...chatTool.function }] });
  const { call_id } = called.output[0];
  const output = [{ type: "function_call_output", call_id, output: "heads" }];
  assert.equal((await openai.responses.create({ model, input: output, previous_response_id: called.id })).output_text, SAID);
}

async function anthropicTools() {
  const tools = [{ name: "flip", input_schema: SCHEMA }];
  const called = await anthropic.messages.create({ model, max_tokens: 100, messages, tools });
  assert.deepEqual([called.stop_reason, called.content[0].input], ["tool_use", { heads: true }]);
  const result = { role: "user", content: [{ type: "tool_result", tool_use_id: called.content[0].id, content: "heads" }] };
  const told = [...messages, { role: "assistant", content: called.content }, result];
  const stream = anthropic.messages.stream({ model, max_tokens: 100, messages: told, tools });
  assert.equal(await stream.finalText(), SAID);
  assert.ok((await anthropic.messages.countTokens({ model, messages: told, tools })).input_tokens > 0);
}

async function ollamaAll() {
  let all = "";
  for await (const part of await ollama.chat({ model, messages, stream: true })) all += part.message.content;
  assert.equal(all, SAID);
  assert.deepEqual(JSON.parse((await ollama.chat({ model, messages, format: SCHEMA })).message.content), { heads: true });
  const { message } = await ollama.chat({ model, messages, tools: [chatTool] });
  assert.deepEqual(message.tool_calls[0].function.arguments, { heads: true });
  const told = [...messages, message, { role: "tool", tool_name: "flip", content: "heads" }];
  assert.equal((await ollama.chat({ model, messages: told, tools: [chatTool] })).message.content, SAID);
  assert.equal((await ollama.generate({ model, prompt })).response, SAID);
  assert.ok((await ollama.embed({ model, input: "a" })).embeddings[0].length > 0);
  assert.equal((await ollama.list()).models.length, 3);
  await ollama.show({ model });
}

const CLIENTS = {
  "@ai-sdk/openai-compatible": {
    ...ofSdk(compatible.chatModel(model)),
    "embeddings": () => embeddings(compatible.embeddingModel(model)),
  },
  "@ai-sdk/openai": {
    ...ofSdk(openaiProvider.responses(model)),
    "chat": () => text(openaiProvider.chat(model)),
    "embeddings": () => embeddings(openaiProvider.embedding(model)),
  },
  "@ai-sdk/anthropic": ofSdk(anthropicProvider(model)),
  "openai": { "chat, tools, streamed": openaiTools, "responses": openaiResponses,
    "embeddings": async () => assert.ok((await openai.embeddings.create({ model, input: "a" })).data[0].embedding.length > 0) },
  "@anthropic-ai/sdk": { "messages, tools, streamed, counted": anthropicTools },
  "ollama": { "chat, format, tools, generate, embed, list, show": ollamaAll },
};

for (const [client, things] of Object.entries(CLIENTS))
  for (const [what, run] of Object.entries(things)) {
    let error = null;
    try {
      await run();
    } catch (caught) {
      error = `${caught?.message ?? caught}`.slice(0, 500);
    }
    const { version } = JSON.parse(await (await import("node:fs/promises")).readFile(path.join(process.env.FOLDER, "node_modules", client, "package.json")));
    console.log(JSON.stringify({ client, version, what, error }));
  }
