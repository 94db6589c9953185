// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// The files that a device shares.

import { back, button, card, go, h, icon, redraw, say } from "../dom.js";
import { attempt } from "../question.js";
import { address } from "../router.js";
import { presence } from "../states.js";
import { bytes, number, shell, t, time } from "../text.js";

/** A larger file does not fit into a page. */
const LARGEST = 256 << 20;

export async function show({ model, path, body, heading, name, on, signal }) {
    const [device, ...folder] = path;
    let known = await find();
    if (signal.aborted) return;
    heading.before(back(known));
    if (known) name(t("files.of", { name: known.title }));
    const isWaiting = known && !known.local && presence(known).tone !== "good";
    if (isWaiting) {
        drawWaiting();
        on(["device", "reset"], async () => {
            known = await find() ?? known;
            if (body.querySelector(".waits")) drawWaiting();
        });
    }
    const page = await read().catch((error) => {
        // What the agent says then is that nobody came to the meeting, and not why.
        if (isWaiting && [502, 503, 504].includes(error.status)) error.message = t("files.away", { name: known.title, state: presence(known).word });
        throw error;
    });
    if (signal.aborted) return;
    const shown = known?.title ?? page.deviceName;
    name(t("files.of", { name: shown }));
    const all = h("ul", { class: "rows" });
    const rest = h("div");
    let leftOut = 0;
    body.replaceChildren(
        h("nav", { "aria-label": t("files.path") }, h("ol", { class: "path" }, [shown, ...folder].map((part, index) =>
            h("li", {}, h("a", { href: address("files", [device, ...folder.slice(0, index)]),
                "aria-current": index === folder.length ? "page" : null }, part))))),
        h("section", { class: "card" }, page.entries?.length ? all : h("p", { class: "quiet" }, t("files.none")), rest));
    add(page);

    async function find() { return (await model.devices().catch(() => ({ devices: [] }))).devices.find((each) => each.id === device); }

    function read(after) { return model.listing(device, folder, after, signal); }

    /** Shows that it may take long, and why. */
    function drawWaiting() {
        redraw(body, card(undefined, h("p", { class: "state waiting waits", role: "status" },
            t("files.waiting", { name: known.title, state: presence(known).word })),
        h("div", { class: "buttons" }, go(t("cancel"), address("device", [device]), { key: "cancel" }))));
    }

    /** Adds a page, and the way to the next one. */
    function add({ entries, leftOut: names, more }) {
        leftOut += (names ?? []).reduce((sum, each) => sum + (each.count ?? 1), 0);
        const made = (entries ?? []).map(drawEntry);
        all.append(...made);
        const last = entries?.at(-1)?.name;
        rest.replaceChildren(...[
            leftOut > 0 && h("p", { class: "quiet small" }, t("files.leftOut", { count: leftOut })),
            more && last && h("p", { class: "quiet small" }, t("files.some", { count: number(all.childElementCount) })),
            more && last && h("div", { class: "buttons" }, button(t("more"), () => readMore(last), { key: "more" })),
        ].filter(Boolean));
        return made;
    }

    async function readMore(last) {
        const button = rest.querySelector("[data-key=more]");
        button.disabled = true;
        const next = await attempt(all, () => read(last));
        if (signal.aborted) return;
        if (!next) {
            button.disabled = false;
            return button.focus();
        }
        const [first] = add(next);
        if (next.more) say(t("files.some", { count: number(all.childElementCount) }));
        // Who goes by the keyboard goes on with the first of them.
        (first?.querySelector("a, button") ?? rest.querySelector("button"))?.focus();
    }

    function drawEntry(entry) {
        const place = [...folder, entry.name];
        const isFolder = entry.kind === "folder";
        const lines = isFolder ? [] : [h("div", { class: "meta" }, bytes(entry.size), " · ", time(entry.modified))];
        if (entry.size > LARGEST) lines.push(h("div", { class: "meta" }, t("files.large"), " ",
            h("code", {}, `relay fetch -- ${shell(!known || known.hasNamesake ? device : known.name)} ${shell(place.join("/"))}`)));
        return h("li", { class: "row" }, icon(isFolder ? "folder" : "file"),
            h("div", { class: "what" }, h("div", { class: "name" },
                isFolder ? h("a", { href: address("files", [device, ...place]) }, entry.name) : entry.name), lines),
            !isFolder && entry.size <= LARGEST && h("div", { class: "act" },
                button(t("files.save"), (event) => save(event.target, place), { label: t("files.save.name", { name: entry.name }) })));
    }

    async function save(pressed, place) {
        pressed.disabled = true;
        const content = await attempt(body.firstChild, () => model.file(device, place));
        pressed.disabled = false;
        if (document.activeElement === document.body) pressed.focus();
        if (!content) return;
        const link = h("a", { href: URL.createObjectURL(content), download: place.at(-1) });
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
        say(t("files.saved", { name: place.at(-1) }));
    }
}
