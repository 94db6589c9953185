// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// The devices of the account, and what waits for an answer.

import { card, go, h, icon, redraw, state, tag } from "../dom.js";
import { address, inTurn } from "../router.js";
import { presence, trust } from "../states.js";
import { byName, list, t } from "../text.js";
import { drawAsks } from "./requests.js";

export async function show({ model, body, heading, on, signal }) {
    heading.append(go(t("view.add"), address("add"), { iconName: "add", look: "primary" }));
    const waiting = h("div");
    const all = h("div");
    body.replaceChildren(waiting, all);
    const draw = inTurn(async () => {
        const { devices, current } = await model.devices();
        if (signal.aborted) return;
        const others = devices.filter((device) => !device.local).sort(byName);
        const here = devices.filter((device) => device.local);
        if (!others.length) {
            const { ways } = await import("./add.js");
            return redraw(all, h("p", {}, t("devices.none")), ways({ model, signal }), section(t("devices.here"), here));
        }
        const isFresh = (device) => device.new || device.endpoints.some((each) => each.new);
        const fresh = others.filter(isFresh);
        redraw(all,
            !current && h("p", { class: "note alarm" }, t("devices.notCurrent")),
            fresh.length > 0 && section(t("devices.new"), fresh),
            section(fresh.length ? t("devices.known") : undefined, others.filter((device) => !isFresh(device))),
            section(t("devices.here"), here));
    });
    await Promise.all([drawAsks(waiting, { model, on, signal }, true), draw()]);
    on(["device", "reset"], draw);
}

const section = (title, devices) => devices.length > 0 && h("section", {},
    title && h("h2", {}, title), h("ul", { class: "cards" }, devices.map((device) => drawDevice(device, title ? "h3" : "h2"))));

function drawDevice(device, heading) {
    const level = trust(device);
    const apps = [...new Set(device.apps.map((app) => app.name || app.id))];
    const link = address("device", [device.id]);
    const canOpen = !device.local && !device.new && device.apps.some((app) => app.schemes.length);
    return h("li", { class: "card device" },
        icon(device.limited ? "browser" : device.kind),
        h("div", { class: "what" },
            h(heading, { class: "name" }, h("a", { href: link, "data-key": `device-${device.id}` }, device.name || t("device.unnamed"))),
            h("div", {}, state(presence(device))),
            h("div", { class: "meta" }, t(`kind.${device.kind}`).replace(/^kind\./, ""),
                level?.tone && [" ", tag(level.word, level.tone)], device.paired && [" ", tag(t("device.paired"))]),
            apps.length > 0 && h("div", { class: "meta" }, list(apps))),
        h("div", { class: "buttons" },
            device.new && go(t("device.look"), link, { minor: true, look: "primary", label: t("device.look.of", { name: device.name }) }),
            canOpen && go(t("view.open"), address("open", [], { device: device.id }),
                { minor: true, iconName: "open", key: `open-${device.id}`, label: t("open.on", { name: device.name }) })));
}
