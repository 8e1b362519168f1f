// The settings and the request that they make. The server decides what is left empty. The model is chosen in models.js.

const NAME = "kvick.settings";

// Keys are the names of the form's fields.
export const DEFAULTS = {
  system: "", temperature: "0.7", "top-p": "", "max-tokens": "2048", seed: "", strategy: "", type: "", select: "",
  spec: "", "cache-prompt": "", salt: "", form: "", schema: "", tools: "", "tool-choice": "", loops: "",
};

export function load(storage) {
  try {
    const stored = JSON.parse(storage.getItem(NAME)) ?? {};
    return Object.fromEntries(Object.entries(DEFAULTS).map(([name, value]) =>
      [name, typeof stored[name] === "string" ? stored[name] : value]));
  } catch {
    return { ...DEFAULTS };
  }
}

export function save(storage, values) {
  try { storage.setItem(NAME, JSON.stringify(values)); } catch { /* lost with the page */ }
}

function number(values, name, words) {
  const text = values[name].trim();
  if (!text) return undefined;
  const value = Number(text);
  if (!Number.isFinite(value)) throw new Error(`the settings' ${words} must be a number, not "${text}"`);
  return value;
}

function json(values, name, words) {
  const text = values[name].trim();
  if (!text) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`the settings' ${words} cannot be read as JSON: ${error.message}`);
  }
}

function form(values) {
  if (values.form === "json") return { type: "json_object" };
  if (values.form !== "schema") return undefined;
  const schema = json(values, "schema", "JSON Schema");
  if (schema === undefined) throw new Error("the settings ask for answers by a JSON Schema, but have none; enter one, or choose text");
  return { type: "json_schema", json_schema: { name: "answer", schema } };
}

function cacheOf(values) {
  const kv = {};
  for (const name of ["strategy", "type", "select"]) if (values[name].trim()) kv[name] = values[name].trim();
  return Object.keys(kv).length ? kv : undefined;
}

function toolsOf(values) {
  const tools = json(values, "tools", "list of tools");
  if (tools === undefined) return undefined;
  if (!Array.isArray(tools)) throw new Error("the settings' tools must be a list, as in OpenAI's API");
  return tools.length ? tools : undefined;
}

// Returns the fields of a request that come from the settings. Throws an Error with a sentence if a setting is invalid.
export function fieldsOf(values) {
  const tools = toolsOf(values);
  const fields = {
    model: values.model || undefined,
    temperature: number(values, "temperature", "temperature"),
    top_p: number(values, "top-p", "top p"),
    max_tokens: number(values, "max-tokens", "most tokens"),
    seed: number(values, "seed", "seed"),
    kv: cacheOf(values),
    spec: values.spec || undefined,
    cache_prompt: values["cache-prompt"] === "no" ? false : undefined,
    cache_salt: values.salt.trim() || undefined,
    response_format: form(values),
    tools,
    tool_choice: tools && values["tool-choice"] ? values["tool-choice"] : undefined,
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

// Returns the messages that are sent. Notes and other fields of this page are left out.
export function messagesOf(values, messages) {
  const sent = messages.map(({ role, content, reasoning_content, tool_calls, tool_call_id }) => ({
    role, content,
    ...(reasoning_content ? { reasoning_content } : {}),
    ...(tool_calls?.length ? { tool_calls } : {}),
    ...(tool_call_id !== undefined ? { tool_call_id } : {}),
  }));
  return values.system.trim() ? [{ role: "system", content: values.system.trim() }, ...sent] : sent;
}

// continues: the last message is an answer to continue.
export function requestBody(values, messages, continues = false) {
  return {
    ...fieldsOf(values),
    messages: messagesOf(values, messages),
    stream: true,
    stream_options: { include_usage: true },
    stop_loops: values.loops !== "go on",
    ...(continues ? { continue_final_message: true, add_generation_prompt: false } : {}),
  };
}
