// Two things that a page without scripts cannot do: take the code from the address, and look again.
"use strict";
const entry = document.querySelector("form[data-enter]");
if (entry && location.hash.length > 1) {
  entry.elements.code.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  entry.submit();
}
const live = document.querySelector("[data-live]");
const bytes = (hex) => Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));
async function answer() {
  const nonce = crypto.randomUUID();
  const got = await fetch(`${live.dataset.live}?nonce=${nonce}`, { cache: "no-store", redirect: "error" });
  const { said, mac } = await got.json();
  const how = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", bytes(live.dataset.key), how, false, ["verify"]);
  const text = new TextEncoder().encode(`${nonce}\n${said}`);
  if (!(await crypto.subtle.verify("HMAC", key, bytes(mac), text))) throw new Error("not the app");
  return JSON.parse(said);
}
async function look() {
  try {
    const now = await answer();
    const state = live.querySelector("[data-state]"), bar = live.querySelector("progress");
    if (state.textContent !== now.state) state.textContent = now.state;
    live.querySelector("[data-step]").textContent = now.step;
    if (now.of) Object.assign(bar, { max: now.of, value: now.round });
    if (now.over) {
      bar.hidden = true;
      live.querySelector("[data-over]").hidden = false;
      for (const each of document.querySelectorAll("[data-running]")) each.hidden = true;
    } else setTimeout(look, 1000);
  } catch {
    document.querySelector("[data-gone]").hidden = false;
    for (const each of document.querySelectorAll("button, input, select")) each.disabled = true;
    for (const each of document.querySelectorAll("a")) each.removeAttribute("href");
  }
}
if (live) setTimeout(look, 500);
