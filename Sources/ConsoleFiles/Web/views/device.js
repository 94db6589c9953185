// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// One device: its endpoints, apps, and what can be done with it.

import { back, button, card, go, h, icon, redraw, row, rows, say, state, tag } from "../dom.js";
import { attempt, question } from "../question.js";
import { address, inTurn } from "../router.js";
import { fullTitle, kindWord, presence, trust } from "../states.js";
import { has, list, parts, t, time } from "../text.js";

export async function show({ model, path, body, heading, title, name, on, signal }) {
    const [id] = path;
    // A new device is looked at to compare it.
    let compares;
    const draw = inTurn(async () => {
        const [{ devices }, about] = await Promise.all([model.devices(), model.about()]);
        const device = devices.find((each) => each.id === id);
        if (signal.aborted) return;
        if (!device) {
            name(t("device.gone"));
            // It may have stood in the device's card.
            const hadFocus = document.activeElement === title || body.contains(document.activeElement);
            heading.prepend(title);
            body.before(heading);
            body.replaceChildren(card(undefined, h("p", {}, t("device.gone.text")),
                go(t("view.devices"), address("devices"), { look: "primary" })));
            return void (hadFocus && title.focus({ preventScroll: true }));
        }
        name(device.title);
        // The title stands in the device's card.
        const isFocused = document.activeElement === title;
        heading.remove();
        const level = trust(device);
        const open = device.endpoints.filter((each) => !each.local && (each.new || each.unverified));
        compares ??= open.some((each) => each.new);
        const others = device.endpoints.filter((each) => !each.local);
        const opens = device.apps.some((app) => app.schemes.length);
        const services = [...new Set(device.apps.flatMap((app) => app.services))];
        redraw(body,
            back(),
            h("div", { class: "card device whole" }, icon(device.limited ? "browser" : device.kind),
                h("div", { class: "what" }, title,
                    h("div", {}, state(presence(device)), " ", level && tag(level.word, level.tone),
                        device.paired && [" ", tag(t("device.paired"))]),
                    h("div", { class: "meta" }, list([kindWord(device), has(`platform.${device.platform}`) ? t(`platform.${device.platform}`) : device.platform,
                        [device.manufacturer, device.model].filter(Boolean).join(" ")].filter(Boolean)))),
                !device.local && h("div", { class: "buttons" },
                    opens && !device.new && go(t("view.open"), address("open", [], { device: id }),
                        { iconName: "open", look: "primary", key: "open" }),
                    services.length > 0 && !device.new && go(t("view.call"), address("call", [], { device: id }),
                        { iconName: "call", key: "call" }),
                    services.includes("files") && !device.new && go(t("view.files"), address("files", [id]),
                        { iconName: "folder", key: "files" }),
                    go(t("device.check"), address("diagnosis", [], { device: id }), { iconName: "diagnosis", key: "diagnosis" }),
                    open.length > 0 && !compares && button(t("device.compare"), compare,
                        { look: device.new ? "primary" : undefined, key: "compare" }),
                    // Who has lost a device looks for this in its head. Several endpoints are chosen among below.
                    others.length === 1 && button(t("device.remove"), () => revoke(device, others[0]),
                        { look: "destructive", key: `revoke-${others[0].id}` }))),
            compares && drawComparison(device, open, about),
            device.apps.length > 0 && card(t("device.apps"), rows(device.apps.map(drawApp))),
            card(t("device.endpoints"), h("p", { class: "quiet small" }, t("device.endpoints.text")),
                rows(device.endpoints.map((endpoint) => drawEndpoint(device, endpoint, others.length > 1)), t("device.endpoints.none"))));
        if (isFocused) title.focus({ preventScroll: true });
    });
    await draw();
    on(["device", "reset"], draw);

    async function compare() {
        compares = true;
        await draw();
        body.querySelector("#compare").focus();
    }

    function drawComparison(device, endpoints, about) {
        const count = endpoints.filter((each) => each.new).length;
        return h("section", { class: "card" }, h("h2", { id: "compare", tabindex: "-1" }, t("compare.title", { name: device.title })),
            h("p", {}, t("compare.text", { name: device.title })), h("pre", {}, "relay whoami"),
            count > 1 && h("p", { class: "note" }, t("compare.several", { count })),
            endpoints.map((endpoint) => h("div", { class: "compared" },
                h("p", { class: "expected" }, t("compare.expect", { name: endpoint.name }), drawWords(endpoint.words)),
                h("p", { class: "quiet small" }, drawJoining(endpoint)),
                h("div", { class: "buttons" },
                    button(t("compare.same"), () => approve(device, endpoint, count), { look: "primary", key: `same-${endpoint.id}` }),
                    button(t("compare.different"), () => revoke(device, endpoint),
                        { look: "destructive", key: `different-${endpoint.id}` })))),
            // They are other ones: next to those of the device they would be compared with them.
            about.words && h("details", { "data-key": "mine" }, h("summary", {}, t("compare.mine")), drawWords(about.words)));
    }

    function drawEndpoint(device, endpoint, isOneOfSeveral) {
        const level = trust(endpoint);
        return row("key", [endpoint.name, " ", endpoint.local ? tag(t("device.local")) : level && tag(level.word, level.tone)], [
            state(presence(endpoint)),
            [t("device.words"), " ", drawWords(endpoint.words)],
            drawJoining(endpoint),
            h("details", { "data-key": `details-${endpoint.id}` }, h("summary", {}, t("details")),
                h("div", {}, t("device.endpoint"), " ", h("code", {}, endpoint.id)),
                h("div", {}, t("device.device"), " ", h("code", {}, device.id))),
        ], !endpoint.local && isOneOfSeveral && button(t("device.revoke"), () => revoke(device, endpoint), { look: "destructive", key: `revoke-${endpoint.id}` }));
    }

    function drawJoining({ joined, address: from, invitedBy, inviterRevoked }) {
        if (!joined) return undefined;
        const inviter = invitedBy && (model.nameOf(invitedBy) ?? invitedBy.slice(0, 8));
        return [...parts("device.joined.when", { time: time(joined) }), from && t("device.joined.from", { address: from }),
            inviter && t(inviterRevoked ? "device.joined.byRevoked" : "device.joined.by", { name: inviter })].filter(Boolean);
    }

    async function approve(device, endpoint, count) {
        // One signature is good for the whole device.
        const yes = await question({
            title: t("approve.title", { name: device.title }),
            text: [h("p", {}, t("approve.text")), count > 1 && h("p", { class: "note" }, t("approve.several", { count })),
                h("p", {}, drawWords(endpoint.words))].filter(Boolean),
            yes: t("approve.yes"),
        });
        if (yes && await attempt(body.firstChild, () => model.approve(endpoint.id))) {
            compares = false;
            say(t("approve.done", { name: device.title }));
            await draw();
            title.focus();
        }
    }

    async function revoke(device, endpoint) {
        const yes = await question({
            title: t("revoke.title", { name: fullTitle(device) }),
            text: [h("p", {}, t("revoke.text")), h("p", {}, t("device.words"), " ", drawWords(endpoint.words))],
            yes: t("revoke.yes"), isDestructive: true,
        });
        if (yes && await attempt(body.firstChild, () => model.revoke(endpoint.id))) {
            say(t("revoke.done", { name: device.title }));
            await draw();
            title.focus();
        }
    }
}

const drawWords = (words) => h("code", { class: "words" }, words.split("-").join(" "));

const drawApp = (app) => row("app", app.name || app.id, [
    app.schemes.length > 0 && t("app.opens", { schemes: list(app.schemes) }),
    app.services.length > 0 && t("app.services", { services: list(app.services) }),
    app.identity && t("app.identity", { identity: app.identity }),
]);
