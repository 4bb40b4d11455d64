// The switches of both menus are labels of the theme. As buttons they are reached by keyboard.
for (const label of document.querySelectorAll(".nav-overlay-icon, .toc-overlay-icon")) {
  const box = document.getElementById(label.htmlFor), button = document.createElement("button");
  const tell = () => button.setAttribute("aria-expanded", box.checked);
  button.type = "button";
  button.className = label.className;
  button.setAttribute("aria-label", label.htmlFor === "__toc" ? "This page" : "All pages");
  button.append(...label.childNodes);
  button.addEventListener("click", () => box.click());
  box.addEventListener("change", tell);
  tell();
  label.replaceWith(button);
}
