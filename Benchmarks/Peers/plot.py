# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
"""usage: plot.py FIGURES.json PLOT.svg: each figure of scripts/bench-peers that has a peer, as two bars."""

import html
import json
import pathlib
import sys

LABELS = {
    "tunnel.rttRatioNATS": ("round trip of 128 B through the relay, µs", "NATS"),
    "tunnel.cpuRatioNATS": ("server CPU seconds per million messages of 128 B", "NATS"),
    "tunnel.bulkRatioNATS": ("64 KiB messages, MB/s", "NATS"),
    "sdk.rttRatioTunnel": ("round trip of an end-to-end encrypted SDK call, µs", "bare tunnel"),
    "idle.kibPerEndpoint": ("memory per idle endpoint, KiB", "NATS client"),
    "idle.kibPerEndpointTLS": ("the same with TLS, KiB", "NATS client"),
    "growth.cpuRatio": ("relay CPU with 10,000 other endpoints, of the cost that grew most", "with 10 others"),
    "bulk.ratioTLS": ("1 GiB from an app service, MB/s", "openssl pipe"),
}
WIDTH, LABEL, BAR, ROW = 760, 380, 250, 46


def text(x, y, words, **style):
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x}" y="{y}"{attributes}>{html.escape(words)}</text>'


def main():
    figures = json.loads(pathlib.Path(sys.argv[1]).read_text())
    shown = [(key, *LABELS[key]) for key in LABELS if figures.get(key, {}).get("peer")]
    height = ROW * len(shown) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
        "<!-- made by Benchmarks/Peers/plot.py -->",
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for index, (key, what, peer) in enumerate(shown):
        top, figure = 10 + index * ROW, figures[key]
        scale = BAR / max(figure["ours"], figure["peer"])
        parts.append(text(LABEL - 10, top + 20, what, text_anchor="end"))
        for offset, name, value, color in ((4, "ours", figure["ours"], "#2b6cb0"), (20, peer, figure["peer"], "#a0aec0")):
            width = max(1, value * scale)
            parts.append(f'<rect x="{LABEL}" y="{top + offset}" width="{width:.1f}" height="13" fill="{color}"/>')
            parts.append(text(f"{LABEL + width + 5:.1f}", top + offset + 11, f"{value:,.4g} {name}", font_size=11))
    parts.append("</svg>")
    pathlib.Path(sys.argv[2]).write_text("\n".join(parts) + "\n")


main()
