// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// Webhooks lead no holder of a token into the person's network, and nobody to the credentials of a cloud.
@Suite(.serialized, .timeLimit(.minutes(10))) struct WebhookAttackTests {
    private func add(_ device: TestDevice, _ url: String, _ headers: String...) async throws -> AgentAPI.Answer {
        try await AgentAPI.post(device, "/v1/webhooks", #"{"url": "\#(url)", "types": ["command.final"]}"#, headers)
    }

    @Test func addressesAreLimited() async throws {
        let pair = try await AgentPair()
        let token = try #require(try await pair.desk.relay("token", "add", "hook", "--scope", "webhooks").output.first)
        let bearer = "Authorization: Bearer \(token)"
        for host in ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "[::1]", "localhost", "[::ffff:127.0.0.1]", "10.0.0.1", "0.0.0.0"] {
            let refused = try await add(pair.desk, "https://\(host)/", bearer)
            #expect(refused.status == 400 && refused.code == "addressRefused", "\(host): \(refused.text)")
        }
        #expect(try await add(pair.desk, "http://8.8.8.8/", bearer).code == "addressRefused")
        #expect(try await AgentAPI.webhooks(pair.desk).isEmpty)
        for url in ["http://127.0.0.1:1/", "https://[::1]:1/", "http://localhost:1/", "http://10.0.0.1/"] {
            #expect(try await add(pair.desk, url).status == 201, "\(url)")
        }
        for host in [
            "169.254.169.254", "2852039166", "0xa9fea9fe", "[::ffff:169.254.169.254]", "[fe80::1]", "[fd00:ec2::254]", "169.254.1.1",
        ] {
            for scheme in ["http", "https"] {
                #expect(try await add(pair.desk, "\(scheme)://\(host)/latest/meta-data").code == "addressRefused", "\(host)")
                #expect(try await add(pair.desk, "\(scheme)://\(host)/", bearer).code == "addressRefused", "\(host)")
            }
        }
        #expect(try await AgentAPI.webhooks(pair.desk).count == 4)
    }

    @Test func numberIsLimited() async throws {
        let pair = try await AgentPair()
        for _ in 1...16 { #expect(try await add(pair.desk, "http://127.0.0.1:1/").status == 201) }
        let refused = try await add(pair.desk, "http://127.0.0.1:1/")
        #expect(refused.status == 429 && refused.code == "limitExceeded")
        #expect(try await AgentAPI.webhooks(pair.desk).count == 16)
    }

    @Test func badRequestsAreRefused() async throws {
        let pair = try await AgentPair()
        let bad = [
            "", "[]", "{}", #"{"url": "http://127.0.0.1:1/"}"#, #"{"types": ["command.final"]}"#,
            #"{"url": 1, "types": ["command.final"]}"#, #"{"url": "http://127.0.0.1:1/", "types": "command.final"}"#,
            #"{"url": "http://127.0.0.1:1/", "types": []}"#, #"{"url": "http://127.0.0.1:1/", "types": ["command"]}"#,
            #"{"url": "http://127.0.0.1:1/", "types": ["command.final"], "secret": "whsec_AAAA"}"#,
            #"{"url": "http://127.0.0.1:1/", "types": ["command.final"], "includeURI": 1}"#,
            #"{"url": "http://127.0.0.1:1/", "url": "http://127.0.0.1:2/", "types": ["command.final"]}"#,
            #"{"url": "ftp://127.0.0.1/", "types": ["command.final"]}"#, #"{"url": "http://a:b@127.0.0.1/", "types": ["command.final"]}"#,
            #"{"url": "http://127.0.0.1:1/\r\nX: y", "types": ["command.final"]}"#,
            #"{"url": "http://127.0.0.1:1/\u0000", "types": ["command.final"]}"#, String(repeating: "[", count: 100_000),
        ]
        for body in bad {
            let answer = try await AgentAPI.post(pair.desk, "/v1/webhooks", body)
            #expect(answer.status == 400 && answer.code != nil, "\(body.prefix(80)): \(answer.status) \(answer.text)")
        }
        #expect(try await AgentAPI.curl(pair.desk, "/v1/webhooks", "-d", #"{"url": "http://127.0.0.1:1/"}"#).status == 415)
        for path in ["wh_nothing", "..%2f..", "%00", "wh_%ff"] {
            #expect([400, 404].contains(try await AgentAPI.curl(pair.desk, "/v1/webhooks/\(path)", "-X", "DELETE").status), "\(path)")
            #expect([400, 404].contains(try await AgentAPI.curl(pair.desk, "/v1/webhooks/\(path)/deliveries").status), "\(path)")
            #expect([400, 404].contains(try await AgentAPI.post(pair.desk, "/v1/webhooks/\(path)/secret", "{}").status), "\(path)")
        }
        #expect(try await AgentAPI.webhooks(pair.desk).isEmpty)
        let webhook = try await AgentAPI.webhook(pair.desk, "http://127.0.0.1:1/")
        #expect(try await AgentAPI.post(pair.desk, "/v1/webhooks/\(webhook.id)/secret", #"{"secret": "whsec_AAAA"}"#).status == 400)
    }
}
