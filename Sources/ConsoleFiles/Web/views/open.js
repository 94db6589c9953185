// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// Opens a link on a device, and follows it.

import { back, button, card, field, go, h, keepFocus, redraw, say, select, state } from "../dom.js";
import { attempt, problemText } from "../question.js";
import { address, inTurn } from "../router.js";
import { attested, choices, presence, progress } from "../states.js";
import { byName, duration, parts, t, time } from "../text.js";

/** How long a link may wait for a device that is not online, in seconds. */
const WAITS = [300, 3_600, 86_400, 604_800];

export async function show({ model, query, body, heading, on, signal }) {
    let { devices, current } = await model.devices();
    if (signal.aborted) return;
    heading.before(back(devices.find((each) => each.id === query.get("device"))));
    const fitting = () => devices.filter((device) => !device.local && !device.new && device.apps.some((app) => app.schemes.length)).sort(byName);
    let targets = fitting();
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
    /** The states of each command that were seen, also before the answer that names it. */
    const seen = new Map();
    on(["command"], (change) => {
        if (!change) return;
        saw(change);
        if (change.id === command?.id) read();
    });
    on(["reset"], () => command && read());
    on(["device", "reset"], inTurn(readDevices));

    function saw({ id, status }) {
        if (!seen.has(id)) seen.set(id, new Set());
        seen.get(id).add(status);
    }

    /** Who is online changes, and what the person has chosen stays. */
    async function readDevices() {
        const now = await model.devices();
        if (signal.aborted) return;
        ({ devices, current } = now);
        // One that goes away while it is chosen stays: the agent says what became of it.
        const all = fitting();
        const chosen = targets.find((each) => each.id === device.value);
        targets = all.some((each) => each.id === chosen.id) ? all : [...all, chosen];
        const { options } = choices(targets, chosen.id);
        const shown = [...device.options].map((each) => `${each.value} ${each.text}`).join("\n");
        // An open list would close.
        if (shown !== options.map(([id, text]) => `${id} ${text}`).join("\n")) {
            device.replaceChildren(...options.map(([id, text]) => h("option", { value: id }, text)));
            device.value = chosen.id;
        }
        chooseApps();
    }

    /** Several apps of a device may open the link: then the person chooses. */
    function chooseApps() {
        const scheme = uri.value.match(/^([a-z][a-z0-9+.-]*):/i)?.[1].toLowerCase();
        const target = targets.find((each) => each.id === device.value);
        const now = presence(target);
        waitField.hidden = now.tone === "good";
        waitField.querySelector("small").textContent = t("open.wait.hint", { name: target.title, state: now.word });
        const apps = target.apps.filter((each) => scheme && each.schemes.includes(scheme));
        const chosen = app.value;
        app.replaceChildren(...apps.map((each) => h("option", { value: each.id }, each.name || each.id)));
        if (apps.some((each) => each.id === chosen)) app.value = chosen;
        appField.hidden = apps.length < 2;
    }

    async function submit(event) {
        event.preventDefault();
        // What became of an earlier link is nothing about this one.
        command = undefined;
        result.replaceChildren();
        say("");
        chooseApps();
        const text = uri.value.trim();
        uriField.complain(!text ? t("open.uri.missing") : !/^[a-z][a-z0-9+.-]*:/i.test(text) ? t("open.uri.noScheme") : undefined);
        if (uri.getAttribute("aria-invalid")) return;
        const sent = { device: device.value, uri: text, ...(appField.hidden ? {} : { app: app.value }),
            ...(waitField.hidden ? {} : { ttl: Number(wait.value) }) };
        // A repeated request is the same command.
        const key = crypto.randomUUID();
        await readDevices().catch(() => {});
        const target = targets.find((each) => each.id === sent.device);
        const isByRelay = current && target.status === "available" && target.reason !== "nearby";
        const made = await attempt(form, () => model.launch(sent, key));
        if (!made) return;
        command = { id: made.command, status: made.status, isByRelay, deviceName: target.title, uri: text, ended: made.status === "succeeded",
            attested: made.attested };
        draw(true);
        if (!command.ended) await read();
    }

    const read = inTurn(async () => {
        const { id, deviceName, isByRelay, uri: link } = command ?? {};
        if (!id) return;
        let answer;
        try {
            answer = await model.command(id);
        } catch (error) {
            return say(problemText(error));
        }
        // Another link may have been sent meanwhile.
        if (signal.aborted || command?.id !== id) return;
        command = { uri: link, ...answer, deviceName, isByRelay };
        draw();
    });

    function draw(isNew) {
        const now = progress(command);
        saw(command);
        const came = (step) => seen.get(command.id).has(step);
        // A link that goes over the local network alone was never at the relay. One that the relay passes on at once is hardly seen there.
        const isFurther = command.ended || ["waking", "delivered"].includes(command.status);
        const steps = ["stored", ...(!isFurther || command.isByRelay || came("accepted") || came("waking") ? ["accepted"] : []),
            ...(command.wake || command.status === "waking" ? ["waking"] : []), "delivered"];
        const done = command.ended ? steps.length : Math.max(0, steps.indexOf(command.status));
        // Of a link that ended elsewhere it is not known how far it came.
        const arrived = !command.ended || command.attested?.by === "target";
        redraw(result, h("section", { class: "card" },
            h("h2", { tabindex: "-1", "data-key": "progress" }, t("open.progress", { name: command.deviceName })),
            h("p", { class: "asked" }, command.uri),
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
        keepFocus(result);
    }
}
