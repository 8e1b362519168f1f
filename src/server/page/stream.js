// Reads the server-sent events of an answer and adds them to a message.

const LONGEST_LINE = 16 * 1024 * 1024;

// Reasons for an answer's end that the note mentions.
const ENDS = { length: "; cut off at the longest answer", loop: "; ended because it repeats itself" };

// Yields the parsed data of each event in a stream of text chunks, until [DONE]. A stream that ends before it is an error,
// because the answer is not complete.
export async function* events(chunks) {
  let rest = "", data = [];
  for await (const chunk of chunks) {
    rest += chunk;
    if (rest.length > LONGEST_LINE) throw new Error("the server sent a line that is too long");
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
      if (line !== "" || !data.length) continue;
      const text = data.join("\n");
      data = [];
      if (text.trim() === "[DONE]") return;
      yield parsed(text);
    }
  }
  throw new Error("the connection ended before the answer did");
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("the server sent something that is no JSON");
  }
}

// Yields the chunks of a response's body as text.
export async function* textOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// Adds one event to an assistant's message. Returns whether the visible text has changed.
export function addEvent(message, event) {
  if (event.error) throw new Error(event.error.message ?? "the server failed on this request");
  if (event.usage) message.usage = event.usage;
  const choice = event.choices?.[0];
  if (!choice) return false;
  if (choice.finish_reason) message.end = choice.kvick_finish ?? choice.finish_reason;
  const { content, reasoning_content: thought, tool_calls: calls } = choice.delta ?? {};
  if (content) message.content += content;
  if (thought) message.reasoning_content = (message.reasoning_content ?? "") + thought;
  for (const call of calls ?? []) addCall(message, call);
  return Boolean(content || thought || calls?.length);
}

function addCall(message, call) {
  message.tool_calls ??= [];
  const at = call.index ?? 0;
  if (!Number.isInteger(at) || at < 0 || at > 255) throw new Error("the server sent a tool call without a place");
  while (message.tool_calls.length <= at) message.tool_calls.push({ id: "", type: "function", function: { name: "", arguments: "" } });
  const known = message.tool_calls[at];
  if (call.id) known.id = call.id;
  known.function.name += call.function?.name ?? "";
  known.function.arguments += call.function?.arguments ?? "";
}

// Returns the note with numbers that is shown below an answer.
export function noteOf(message, waited, wrote) {
  if (!message.usage) return "";
  const { prompt_tokens: read, completion_tokens: written, prompt_tokens_details: details } = message.usage;
  const pace = written > 1 ? `, ${((written - 1) / Math.max(wrote, 1e-3)).toFixed(0)} a second` : "";
  return `${read} tokens read (${details?.cached_tokens ?? 0} found in the cache), first word after ${waited.toFixed(2)} s; ` +
    `${written} written${pace}` + (ENDS[message.end] ?? "");
}
