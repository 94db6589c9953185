// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// Makes elements. Text becomes text: nothing here, or elsewhere in the console, parses HTML.

import { t } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
        if (value === undefined || value === null || value === false) continue;
        if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
        else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false && child !== ""));
    return element;
}

/** Makes an HTML element. `onclick` is a listener, `true` an attribute without a value; children may be lists or nothing. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** Makes an SVG element. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const ICONS = new Set(["desktop", "laptop", "tablet", "phone", "hub", "holographic", "xbox", "iot", "browser", "server", "device", "app",
    "key",
    "person", "event", "link", "file", "folder", "open", "call", "ask", "hook", "add", "check", "diagnosis", "transfer"]);

/** An icon of `icons.svg`. Any other name gets that of a device. */
export const icon = (name) =>
    s("svg", { class: "icon", "aria-hidden": "true" }, s("use", { href: `icons.svg#${ICONS.has(name) ? name : "device"}` }));

/** A state: a word with the colour and shape of its tone: good, busy, asleep, warn, bad, or none. */
export const state = ({ word, tone }) => h("span", { class: `state ${tone ?? ""}` }, word);

/** The way back to a device, or to all of them. */
export const back = (device) => h("p", { class: "back" },
    h("a", { href: device ? `#/device/${encodeURIComponent(device.id)}` : "#/devices" }, device ? device.title : t("view.devices")));

export const tag = (word, tone) => h("span", { class: `tag ${tone ?? ""}` }, word);

export const card = (title, ...children) => h("section", { class: "card" }, title && h("h2", {}, title), children);

/** One thing of a list. */
export const row = (iconName, name, lines, ...actions) => h("li", { class: "row" },
    iconName && icon(iconName),
    h("div", { class: "what" }, h("div", { class: "name" }, name), lines.filter(Boolean).map((line) => h("div", { class: "meta" }, line))),
    actions.some(Boolean) && h("div", { class: "act" }, actions));

export const rows = (list, nothing) => list.length ? h("ul", { class: "rows" }, list) : h("p", { class: "quiet" }, nothing);

/** A button. `look` is primary, destructive or nothing; `key` keeps its focus when the view is drawn again. */
export const button = (text, action, { look, key, iconName, minor, label } = {}) =>
    h("button", { type: "button", class: [look, minor && "minor"].filter(Boolean).join(" ") || null, onclick: action, "data-key": key,
        "aria-label": label }, iconName && icon(iconName), text);

/** A link that looks like a button. */
export const go = (text, address, { look, key, iconName, minor, label } = {}) =>
    h("a", { class: ["button", look, minor && "minor"].filter(Boolean).join(" "), href: address, "data-key": key, "aria-label": label },
        iconName && icon(iconName), text);

/** A sentence of the agent, with its commands as such: they stand in backquotes. */
export const sentence = (text) => text.split("`").map((part, index) => index % 2 ? h("code", {}, part) : part);

let fields = 0;

/** A field with its label and, below it, a hint and an error. */
export function field(label, input, hint) {
    const id = `field-${fields += 1}`;
    input.id = id;
    const error = h("small", { class: "state bad", id: `${id}-error`, hidden: true });
    input.setAttribute("aria-describedby", hint ? `${id}-hint ${id}-error` : `${id}-error`);
    // The label is the name alone: what is within it would be read with the name, and again as the description.
    const whole = h("div", { class: "field" }, h("label", { for: id }, label), input, hint && h("small", { id: `${id}-hint` }, hint), error);
    /** Shows what is wrong with the value, or nothing. */
    whole.complain = (text) => {
        error.hidden = !text;
        error.replaceChildren(text ?? "");
        if (!text) return input.removeAttribute("aria-invalid");
        input.setAttribute("aria-invalid", "true");
        input.focus();
    };
    return whole;
}

export const select = (options, attributes) => {
    const made = h("select", attributes, options.map(([value, text]) => h("option", { value }, text)));
    return made;
};

/** Replaces the content of an element, and keeps the focus and what was unfolded. If what had the focus is gone, its heading gets it. */
export function redraw(root, ...children) {
    const hadFocus = root.contains(document.activeElement);
    const focused = hadFocus ? document.activeElement.dataset.key : undefined;
    const unfolded = new Set([...root.querySelectorAll("details[open][data-key]")].map((each) => each.dataset.key));
    root.replaceChildren(...children.flat(Infinity).filter(Boolean));
    for (const each of root.querySelectorAll("details[data-key]")) each.open = unfolded.has(each.dataset.key);
    if (focused) [...root.querySelectorAll("[data-key]")].find((each) => each.dataset.key === focused)?.focus({ preventScroll: true });
    if (hadFocus) keepFocus(root);
}

/** Gives the focus that nothing has any more to the next heading of a place, or to that of the view. */
export function keepFocus(root) {
    if (document.activeElement && document.activeElement !== document.body) return;
    const heading = root.querySelector(":is(h1, h2)[tabindex]") ?? document.querySelector("main h1");
    heading?.focus({ preventScroll: true });
}

let spoken;

/** Tells people who do not see the page, also the same once more. */
export function say(text) {
    const says = document.getElementById("says");
    // A change is spoken, and the same text would be none.
    says.textContent = "";
    clearTimeout(spoken);
    spoken = setTimeout(() => { says.textContent = text; }, 50);
}

const named = { view: "", count: 0 };

/** Names the page in the window's title: the view, or the number of requests that are open. */
export function entitle(changes) {
    Object.assign(named, changes);
    document.title = `${named.count ? `(${named.count}) ` : ""}${named.view} · ${t("product")}`;
}
