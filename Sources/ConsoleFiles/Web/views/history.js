// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// Links and messages that were sent and received.

import { button, card, field, go, h, icon, keepFocus, redraw, rows, select, state } from "../dom.js";
import { attempt } from "../question.js";
import { address, afterwards, inTurn } from "../router.js";
import { attested, progress } from "../states.js";
import { has, parts, t, time } from "../text.js";

const RECEIVED = { launched: "good", received: "good", declined: "", failed: "bad" };

export async function show({ model, body, on, signal }) {
    let commands = [];
    let devices = [];
    let hasMore = false;
    const which = select(["all", "open", "sent", "received"].map((each) => [each, t(`history.${each}`)]), { "data-key": "which" });
    const all = h("div");
    which.addEventListener("change", draw);
    body.replaceChildren(h("div", { class: "filters" }, field(t("history.which"), which)), all);
    /** What another device did here, of the audit: without contents. */
    const received = ({ sequence, time, device, action, subject, answer }) => ({
        id: `received-${sequence}`, direction: "received", deviceName: model.nameOf(device), endpoint: device, sent: time, ended: true,
        outcome: has(`received.${answer}`) ? answer : "failed", scheme: subject, transfer: action === "transfer",
    });

    const read = inTurn(async () => {
        const [answer, audit, known] = await Promise.all([model.commands(), model.audit().catch(() => ({ entries: [] })),
            model.devices().catch(() => ({ devices: [] }))]);
        if (signal.aborted) return;
        devices = known.devices;
        // What was read of older ones stays.
        const rest = !model.hasMore(answer.commands) ? [] : commands.filter(({ id, direction, sent }) => direction !== "received"
            && sent <= answer.commands.at(-1).sent && !answer.commands.some((each) => each.id === id));
        commands = [...answer.commands, ...rest, ...audit.entries.filter((each) => each.principal.startsWith("device:")).map(received)];
        hasMore = rest.length ? hasMore : model.hasMore(answer.commands);
        draw();
    });
    await read();
    on(["command", "reset"], read);
    // What another device did is written down when it is over, which follows the event.
    on(["ask", "transfer"], afterwards(read, signal));

    async function readMore() {
        const answer = await attempt(all, () => model.commands(commands.findLast((each) => each.direction !== "received")?.id));
        if (!answer) return;
        commands = [...commands, ...answer.commands];
        hasMore = model.hasMore(answer.commands);
        draw();
    }

    function draw() {
        const shown = commands.filter((each) => !isProbe(each)).filter((each) => ({
            open: !each.ended, sent: each.direction !== "received", received: each.direction === "received",
        })[which.value] ?? true).sort((first, second) => second.sent.localeCompare(first.sent));
        redraw(all, card(undefined, rows(shown.map(drawCommand), t(commands.length ? "history.nothing" : "history.none"))),
            hasMore && button(t("more"), readMore, { key: "more" }));
    }

    /** The diagnosis sends messages to its own device. */
    function isProbe({ service, endpoint }) {
        return service === "ping" && devices.some((each) => each.local && each.endpoints.some(({ id }) => id === endpoint));
    }

    /** Where a link that was not opened can be sent once more. */
    function retry({ ended, status, uri, endpoint }) {
        if (!ended || status === "succeeded" || !uri) return undefined;
        const device = devices.find((each) => each.endpoints.some(({ id }) => id === endpoint));
        if (!device || device.new || !device.apps.some((app) => app.schemes.length)) return undefined;
        return address("open", [], { device: device.id, uri });
    }

    function drawCommand(command) {
        const isReceived = command.direction === "received";
        const name = model.nameOf(command.endpoint) ?? command.deviceName ?? command.endpoint.slice(0, 8);
        const content = command.transfer ? t("history.transfer") : command.uri ?? (command.service && t("history.message", { service: command.service }))
            ?? (command.scheme && t("history.scheme", { scheme: command.scheme })) ?? t("history.launch");
        const peer = t(isReceived ? "history.from" : "history.to", { name });
        const again = !isReceived && retry(command);
        return h("li", { class: "row" }, icon(command.service ? "call" : "link"),
            h("div", { class: "what" }, h("div", { class: "name" }, content),
                h("div", { class: "meta" }, peer, " · ", time(command.sent)),
                h("div", { class: "line" }, state(isReceived
                    ? { word: t(`received.${command.outcome}`), tone: RECEIVED[command.outcome] } : progress({ ...command, deviceName: name })),
                command.attested && h("span", { class: "meta" }, attested(command.attested)),
                !command.ended && command.expires && h("span", { class: "meta" }, parts("history.until", { time: time(command.expires) }))),
                !isReceived && h("details", { "data-key": `details-${command.id}` }, h("summary", {}, t("details")),
                    h("div", {}, t("history.id"), " ", h("code", {}, command.id)))),
            again && h("div", { class: "act" }, go(t("history.again"), again,
                { minor: true, key: `again-${command.id}`, label: t("history.again.of", { uri: command.uri, name }) })),
            !command.ended && !isReceived && h("div", { class: "act" },
                button(t("cancel"), () => attempt(all, async () => {
                    await model.cancel(command.id);
                    await read();
                    keepFocus(all);
                }),
                    { key: `cancel-${command.id}` })));
    }
}
