// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// The files that a device shares.

import { back, button, card, h, icon, rows, say } from "../dom.js";
import { attempt } from "../question.js";
import { address } from "../router.js";
import { bytes, shell, t, time } from "../text.js";

/** A larger file does not fit into a page. */
const LARGEST = 256 << 20;

export async function show({ model, path, body, heading, name, signal }) {
    const [device, ...folder] = path;
    const known = (await model.devices().catch(() => ({ devices: [] }))).devices.find((each) => each.id === device);
    if (signal.aborted) return;
    heading.before(back(known));
    if (known) name(t("files.of", { name: known.name }));
    const { entries, leftOut, deviceName } = await model.listing(device, folder);
    if (signal.aborted) return;
    name(t("files.of", { name: deviceName }));
    body.replaceChildren(
        h("nav", { "aria-label": t("files.path") }, h("ol", { class: "path" }, [deviceName, ...folder].map((part, index) =>
            h("li", {}, h("a", { href: address("files", [device, ...folder.slice(0, index)]),
                "aria-current": index === folder.length ? "page" : null }, part))))),
        card(undefined, rows((entries ?? []).map((entry) => drawEntry(entry)), t("files.none")),
            leftOut?.length > 0 && h("p", { class: "quiet small" }, t("files.leftOut", { count: leftOut.length }))));

    function drawEntry(entry) {
        const place = [...folder, entry.name];
        const isFolder = entry.kind === "folder";
        const lines = isFolder ? [] : [h("div", { class: "meta" }, bytes(entry.size), " · ", time(entry.modified))];
        if (entry.size > LARGEST) lines.push(h("div", { class: "meta" }, t("files.large"), " ",
            h("code", {}, `relay fetch -- ${shell(deviceName)} ${shell(place.join("/"))}`)));
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
        if (!content) return;
        const link = h("a", { href: URL.createObjectURL(content), download: place.at(-1) });
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
        say(t("files.saved", { name: place.at(-1) }));
    }
}

