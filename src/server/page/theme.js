// Dark, light, or as the system has it; both pages read the same choice.

const NAME = "kvick.theme";

export function theme() {
  try { return localStorage.getItem(NAME) ?? "system"; } catch { return "system"; }
}

export function setTheme(name) {
  if (name === "dark" || name === "light") document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  try { localStorage.setItem(NAME, name); } catch { /* it lasts as long as the page, then */ }
}

setTheme(theme());
