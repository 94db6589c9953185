// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// The way from this device to the relay and to another device, hop by hop.

import { card, field, h, icon, redraw, say, select, sentence, state } from "../dom.js";
import { check as checkState } from "../states.js";
import { byName, has, t } from "../text.js";

/** Where each check belongs: at a stop, or on the way between two. */
const PLACES = [
    ["here", ["account", "login", "clock", "identity", "links"]],
    ["way", ["relay", "presence", "mailbox", "tunnel"]],
    ["there", ["device"]],
    ["network", ["nearby", "network", "multicast", "outgoing", "incoming", "clocks"]],
];
const WORST = ["failed", "warning", "away", "ok", "skipped"];

export async function show({ model, query, body, signal }) {
    const { devices } = await model.devices();
    if (signal.aborted) return;
    const others = devices.filter((device) => !device.local).sort(byName);
    const target = select([["", t("diagnosis.relayOnly")], ...others.map((each) => [each.id, each.title])], {});
    if (query.get("device")) target.value = query.get("device");
    const result = h("div");
    const again = h("button", { type: "submit", class: "primary" }, t("diagnosis.do"));
    body.replaceChildren(h("form", { class: "filters", onsubmit: (event) => { event.preventDefault(); run(); } },
        field(t("diagnosis.target"), target), again), result);
    await run();

    async function run() {
        again.disabled = true;
        result.replaceChildren(h("p", { class: "state busy" }, t("diagnosis.running")));
        say(t("diagnosis.running"));
        try {
            const { checks } = await model.doctor(target.value, signal);
            draw(checks);
        } finally {
            again.disabled = false;
        }
    }

    function draw(checks) {
        const of = (place) => checks.filter((each) => PLACES.find(([name]) => name === place)[1].includes(each.name));
        // A device that is switched off is no fault of the way to it.
        for (const each of checks) if (each.name === "device" && each.code === "remoteSystemUnavailable") each.status = "away";
        const worst = (list) => WORST.find((status) => list.some((each) => each.status === status)) ?? "skipped";
        const rank = (place) => Math.min(WORST.indexOf("ok"), WORST.indexOf(worst(of(place))));
        const bad = checks.filter((each) => each.status === "failed").length;
        const peer = target.value && others.find((each) => each.id === target.value);
        const stops = [
            stop("device", t("diagnosis.here"), worst(of("here"))), way(worst(of("way"))),
                stop("server", t("diagnosis.relay"), worst(checks.filter((each) => each.name === "relay"))),
            peer && [way(worst(of("there"))), stop(peer.kind, peer.title, worst(of("there")))],
        ];
        const isAway = peer && checks.some((each) => each.status === "away");
        const sum = bad ? t("diagnosis.bad", { count: bad }) : isAway ? t("diagnosis.away", { name: peer.title }) : t("diagnosis.good");
        redraw(result,
            h("section", { class: "card" }, h("h2", {}, sum), h("ol", { class: "hops" }, stops)),
            // What does not work comes first.
            PLACES.map(([name]) => name).sort((first, second) => rank(first) - rank(second)).map((name) => of(name).length > 0 && card(t(`diagnosis.${name}`),
                h("ul", { class: "rows" }, of(name).map(drawCheck)))));
        say(sum);
    }
}

/** The messages are parts of lines of a terminal. */
const asSentence = (text) => text.replace(/^[a-z]/, (first) => first.toUpperCase());

const stop = (iconName, name, status) => h("li", { class: "stop" }, icon(iconName), h("span", { class: "name" }, name),
    state(checkState(status)));
const way = (status) => h("li", { class: `way ${status}`, "aria-hidden": "true" });

const drawCheck = ({ name, status, message, advice, node }) => h("li", { class: "row" },
    h("div", { class: "what" }, h("div", {}, h("span", { class: "name" }, has(`hop.${name}`) ? t(`hop.${name}`) : name), " ",
        state(checkState(status))),
        h("div", { class: "meta" }, sentence(asSentence(message))), node && h("div", { class: "meta" }, node),
        advice && h("p", { class: "note" }, sentence(asSentence(advice)))));
