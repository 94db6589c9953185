// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// The devices of the account.

import { card, go, h, icon, redraw, state, tag } from "../dom.js";
import { address, inTurn } from "../router.js";
import { kindWord, presence, trust } from "../states.js";
import { byName, t } from "../text.js";

export async function show({ model, body, heading, on, signal }) {
    heading.append(go(t("view.add"), address("add"), { iconName: "add", look: "primary" }));
    const all = h("div");
    body.replaceChildren(all);
    const draw = inTurn(async () => {
        const { devices, current } = await model.devices();
        if (signal.aborted) return;
        const others = devices.filter((device) => !device.local).sort(byName);
        const here = devices.filter((device) => device.local);
        if (!others.length) {
            const { ways } = await import("./add.js");
            return redraw(all, h("p", {}, t("devices.none")), ...ways({ model, signal }), section(t("devices.here"), here));
        }
        const isFresh = (device) => device.new || device.endpoints.some((each) => each.new);
        const fresh = others.filter(isFresh);
        const settled = others.filter((device) => !isFresh(device));
        redraw(all,
            !current && h("p", { class: "note alarm" }, t("devices.notCurrent")),
            fresh.length > 0 && section(t("devices.new"), fresh),
            section(t("devices.known"), settled, current && t("devices.online",
                { count: settled.length, online: settled.filter((each) => presence(each).tone === "good").length })),
            section(t("devices.here"), here));
    });
    await draw();
    on(["device", "reset"], draw);
}

const section = (title, devices, sum) => devices.length > 0 && h("section", {},
    h("div", { class: "line" }, h("h2", {}, title), sum && h("span", { class: "meta sum" }, sum)),
    h("ul", { class: "cards" }, devices.map(drawDevice)));

function drawDevice(device) {
    const level = trust(device);
    const apps = device.apps.map((app) => app.name || app.id);
    const about = [kindWord(device), ...apps];
    const link = address("device", [device.id]);
    const canOpen = !device.local && !device.new && device.apps.some((app) => app.schemes.length);
    return h("li", { class: "card device" },
        icon(device.limited ? "browser" : device.kind),
        h("div", { class: "what" },
            h("h3", { class: "name" }, h("a", { href: link, "data-key": `device-${device.id}` }, device.title)),
            h("div", {}, state(presence(device))),
            h("div", { class: "meta" }, [...new Set(about)].filter((each) => each !== device.name).join(" · ")),
            h("div", {}, level?.tone && [tag(level.word, level.tone), " "], device.paired && tag(t("device.paired")))),
        h("div", { class: "buttons" },
            device.new && go(t("device.look"), link, { minor: true, look: "primary", label: t("device.look.of", { name: device.title }) }),
            canOpen && go(t("view.open"), address("open", [], { device: device.id }),
                { minor: true, iconName: "open", key: `open-${device.id}`, label: t("open.on", { name: device.title }) })));
}
