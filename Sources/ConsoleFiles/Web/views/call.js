// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// Calls a service of a device, and plots how long its answers take.

import { back, button, card, field, go, h, s, say, select } from "../dom.js";
import { laidOut } from "../model/json.js";
import { attempt, problemText } from "../question.js";
import { address } from "../router.js";
import { choices } from "../states.js";
import { byName, milliseconds, t } from "../text.js";

const PINGS = 20;

export async function show({ model, query, body, heading, signal }) {
    const { devices } = await model.devices();
    if (signal.aborted) return;
    heading.before(back(devices.find((each) => each.id === query.get("device"))));
    const targets = devices.filter((device) => !device.local && !device.new && device.apps.some((app) => app.services.length)).sort(byName);
    if (!targets.length) {
        return body.replaceChildren(card(undefined, h("p", {}, t("call.nowhere")), go(t("view.devices"), address("devices"))));
    }
    const { options, value } = choices(targets, query.get("device"));
    const device = select(options, { name: "device" });
    device.value = value;
    const service = h("select", { name: "service" });
    const message = h("textarea", { name: "message", spellcheck: "false", autocapitalize: "none" });
    message.value = "{}";
    const messageField = field(t("call.message"), message, t("call.message.hint"));
    const answer = h("div");
    const plot = h("div");
    const ping = card(t("ping.title"), h("p", { class: "quiet" }, t("ping.text")),
        button(t("ping.do", { count: PINGS }), pings, { key: "ping" }), plot);
    const form = h("form", { class: "card", novalidate: true, onsubmit: submit }, field(t("call.device"), device),
        field(t("call.service"), service), messageField,
        h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, t("call.do"))));
    body.replaceChildren(form, answer, ping);
    device.addEventListener("change", chooseServices);
    chooseServices();

    function chooseServices() {
        const target = targets.find((each) => each.id === device.value);
        const names = [...new Set(target.apps.flatMap((app) => app.services))].sort();
        service.replaceChildren(...names.map((each) => h("option", { value: each }, each)));
        ping.hidden = !names.includes("ping");
        plot.replaceChildren();
    }

    async function submit(event) {
        event.preventDefault();
        // It is sent as it is typed.
        const text = message.value;
        let value;
        try {
            value = JSON.parse(text);
        } catch (error) {
            return messageField.complain(t("call.json", placeOf(error, text)));
        }
        const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
        messageField.complain(isObject ? undefined : t("call.object"));
        if (!isObject) return;
        answer.replaceChildren(card(undefined, h("p", { class: "state busy" }, t("call.waiting"))));
        const target = targets.find((each) => each.id === device.value);
        const begin = performance.now();
        try {
            const got = await model.call(target.id, service.value, text, signal);
            const took = milliseconds(performance.now() - begin);
            answer.replaceChildren(card(t("call.answer", { name: target.title }),
                h("pre", { tabindex: "0", dir: "ltr" }, laidOut(got)),
                h("p", { class: "quiet" }, t("call.took", { time: took }))));
            say(t("call.answered", { time: took }));
        } catch (error) {
            if (!signal.aborted) answer.replaceChildren(card(undefined, h("p", { class: "note", role: "alert" }, problemText(error))));
        }
    }

    async function pings({ target }) {
        target.disabled = true;
        const times = [];
        await attempt(plot, async () => {
            for (let sequence = 0; sequence < PINGS && !signal.aborted; sequence += 1) {
                const begin = performance.now();
                await model.call(device.value, "ping", JSON.stringify({ n: sequence }), signal);
                times.push(performance.now() - begin);
                plot.replaceChildren(drawPlot(times));
            }
        });
        target.disabled = false;
        target.focus();
        if (times.length) say(summary(times));
    }
}

/** The line and column of an error in JSON, as far as the browser tells. */
function placeOf(error, text) {
    const told = error.message.match(/line (\d+) column (\d+)/);
    if (told) return { line: told[1], column: told[2] };
    const position = Number(error.message.match(/position (\d+)/)?.[1] ?? text.length);
    const lines = text.slice(0, position).split("\n");
    return { line: lines.length, column: lines.at(-1).length + 1 };
}

function summary(times) {
    const sorted = [...times].sort((first, second) => first - second);
    return t("ping.summary", {
        least: milliseconds(sorted[0]), median: milliseconds(sorted[Math.floor(sorted.length / 2)]), most: milliseconds(sorted.at(-1)),
    });
}

/** One bar for each answer, with the same times as a list. */
function drawPlot(times) {
    const [width, height, left, bottom] = [600, 190, 92, 14];
    const most = Math.max(...times);
    const step = 10 ** Math.floor(Math.log10(most));
    const top = Math.ceil(most / step) * step;
    const y = (time) => 14 + (height - bottom - 14) * (1 - time / top);
    const wide = (width - left) / PINGS;
    return h("figure", { class: "plot" },
        s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": summary(times) },
            [0, top / 2, top].map((time) => [
                s("line", { x1: left, x2: width, y1: y(time), y2: y(time), class: "grid" }),
                s("text", { x: left - 8, y: y(time) + 5, "text-anchor": "end" }, milliseconds(time))]),
            times.map((time, index) => s("rect", { x: left + index * wide + 3, width: wide - 6, y: y(time),
                height: Math.max(1, y(0) - y(time)), rx: 2 },
                s("title", {}, milliseconds(time))))),
        h("figcaption", {}, summary(times)),
        h("details", { "data-key": "times" }, h("summary", {}, t("ping.times")),
            h("ol", {}, times.map((time) => h("li", {}, milliseconds(time))))));
}
