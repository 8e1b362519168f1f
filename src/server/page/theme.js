// The theme: dark, light, or that of the system. Both pages use the same choice.

const NAME = "kvick.theme";

export function theme() {
  try { return localStorage.getItem(NAME) ?? "system"; } catch { return "system"; }
}

export function setTheme(name) {
  if (name === "dark" || name === "light") document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  try { localStorage.setItem(NAME, name); } catch { /* lost with the page */ }
}

setTheme(theme());
