// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// Opens a link on a device, and follows it.

import { back, button, card, field, go, h, redraw, say, select, state } from "../dom.js";
import { attempt, problemText } from "../question.js";
import { address, inTurn } from "../router.js";
import { attested, choices, presence, progress } from "../states.js";
import { byName, duration, parts, t, time } from "../text.js";

/** How long a link may wait for a device that is not online, in seconds. */
const WAITS = [300, 3_600, 86_400, 604_800];

export async function show({ model, query, body, heading, on, signal }) {
    const { devices } = await model.devices();
    if (signal.aborted) return;
    heading.before(back(devices.find((each) => each.id === query.get("device"))));
    const targets = devices.filter((device) => !device.local && !device.new && device.apps.some((app) => app.schemes.length)).sort(byName);
    if (!targets.length) {
        return body.replaceChildren(card(undefined, h("p", {}, t("open.nowhere")), go(t("view.add"), address("add"), { look: "primary" })));
    }
    const uri = h("input", { name: "uri", type: "url", inputmode: "url", autocomplete: "off", autocapitalize: "none", spellcheck: "false",
        required: true, placeholder: "https://", value: query.get("uri") ?? "" });
    const { options, value } = choices(targets, query.get("device"));
    const device = select(options, { name: "device" });
    device.value = value;
    const app = h("select", { name: "app" });
    const uriField = field(t("open.uri"), uri, t("open.uri.hint"));
    const appField = field(t("open.app"), app);
    const wait = select(WAITS.map((each) => [each, duration(each)]), { name: "wait" });
    wait.value = 86_400;
    const waitField = field(t("open.wait"), wait, " ");
    const result = h("div");
    const form = h("form", { class: "card", novalidate: true, onsubmit: submit }, uriField, field(t("open.device"), device), waitField, appField,
        h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, t("open.do"))));
    body.replaceChildren(form, result);
    device.addEventListener("change", chooseApps);
    uri.addEventListener("change", chooseApps);
    chooseApps();
    uri.focus();

    let command;
    on(["command"], (change) => { if (command && change?.id === command.id) read(); });
    on(["reset"], () => command && read());

    /** Several apps of a device may open the link: then the person chooses. */
    function chooseApps() {
        const scheme = uri.value.match(/^([a-z][a-z0-9+.-]*):/i)?.[1].toLowerCase();
        const target = targets.find((each) => each.id === device.value);
        const now = presence(target);
        waitField.hidden = now.tone === "good";
        waitField.querySelector("small").textContent = t("open.wait.hint", { name: target.name, state: now.word });
        const fitting = target.apps.filter((each) => scheme && each.schemes.includes(scheme));
        app.replaceChildren(...fitting.map((each) => h("option", { value: each.id }, each.name || each.id)));
        appField.hidden = fitting.length < 2;
    }

    async function submit(event) {
        event.preventDefault();
        chooseApps();
        const text = uri.value.trim();
        uriField.complain(!text ? t("open.uri.missing") : !/^[a-z][a-z0-9+.-]*:/i.test(text) ? t("open.uri.noScheme") : undefined);
        if (uri.getAttribute("aria-invalid")) return;
        const sent = { device: device.value, uri: text, ...(appField.hidden ? {} : { app: app.value }),
            ...(waitField.hidden ? {} : { ttl: Number(wait.value) }) };
        // A repeated request is the same command.
        const key = crypto.randomUUID();
        const made = await attempt(form, () => model.launch(sent, key));
        if (!made) return;
        const target = targets.find((each) => each.id === sent.device);
        command = { id: made.command, status: made.status, deviceName: made.deviceName ?? target.name, ended: made.status === "succeeded",
            attested: made.attested };
        draw(true);
        if (!command.ended) await read();
    }

    const read = inTurn(async () => {
        try {
            command = { deviceName: command.deviceName, ...await model.command(command.id) };
        } catch (error) {
            return say(problemText(error));
        }
        if (!signal.aborted) draw();
    });

    function draw(isNew) {
        const now = progress(command);
        const steps = ["stored", "accepted", ...(command.wake || command.status === "waking" ? ["waking"] : []), "delivered"];
        const done = command.ended ? steps.length : Math.max(0, steps.indexOf(command.status));
        // Of a link that ended elsewhere it is not known how far it came.
        const arrived = !command.ended || command.attested?.by === "target";
        redraw(result, h("section", { class: "card" },
            h("h2", { tabindex: "-1", "data-key": "progress" }, t("open.progress", { name: command.deviceName })),
            arrived && h("ol", { class: "steps" }, steps.map((step, index) =>
                h("li", { class: index < done ? "done" : index === done ? "now" : "", "aria-current": index === done ? "step" : null },
                    t(`step.${step}`, { name: command.deviceName })))),
            h("p", { class: "line" }, state(now),
                !command.ended && command.expires && h("span", { class: "meta" }, parts("history.until", { time: time(command.expires) }))),
            command.attested && h("p", { class: "quiet" }, attested(command.attested)),
            !command.ended && button(t("cancel"), cancel, { key: "cancel" })));
        say(now.word);
        if (isNew) result.querySelector("h2").focus();
    }

    async function cancel() {
        await attempt(result, () => model.cancel(command.id));
        await read();
    }
}
