// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

/// What a device may do here without a question.
package struct Grant: Codable, Hashable, Sendable, Identifiable {
    package enum Source: String, Codable, Sendable {
        /// `agent.yaml`. Only there it can be changed.
        case settings
        /// The answer `always` to a question.
        case ask
        /// `relay grants add`, or the API.
        case command
    }

    /// What it is for.
    package enum Subject: Hashable, Sendable {
        /// To open URIs of a scheme.
        case scheme(String)
        /// To call an app service.
        case service(String)
        /// To read a folder, by its name alone.
        case folder(String)
        /// To send files, links and texts.
        case transfer
    }

    package var id: String
    /// The id of the device; `nil` for all known devices.
    package var device: String?
    package var subject: Subject
    /// `nil` for no end.
    package var until: Date?
    package var source: Source
    package var uses: Int
    package var lastUse: Date?
    /// The program that opens the links of a scheme; `nil` for the system's default.
    package var handler: LinkHandler?

    private enum CodingKeys: String, CodingKey {
        case id, device, known, scheme, service, folder, transfer, until, source, uses, lastUse, handler
    }

    init(
        id: String,
        device: String?,
        subject: Subject,
        until: Date? = nil,
        source: Source,
        uses: Int = 0,
        lastUse: Date? = nil,
        handler: LinkHandler? = nil
    ) {
        (self.id, self.device, self.subject, self.until, self.source) = (id, device, subject, until, source)
        (self.uses, self.lastUse, self.handler) = (uses, lastUse, handler)
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        id = try container.decode(String.self, forKey: .id)
        device = try container.decodeIfPresent(String.self, forKey: .device)
        if let scheme = try container.decodeIfPresent(String.self, forKey: .scheme) {
            subject = .scheme(scheme)
        } else if let service = try container.decodeIfPresent(String.self, forKey: .service) {
            subject = .service(service)
        } else if let folder = try container.decodeIfPresent(String.self, forKey: .folder) {
            subject = .folder(folder)
        } else {
            subject = .transfer
        }
        until = try container.decodeIfPresent(Date.self, forKey: .until)
        source = try container.decode(Source.self, forKey: .source)
        uses = try container.decode(Int.self, forKey: .uses)
        lastUse = try container.decodeIfPresent(Date.self, forKey: .lastUse)
        handler = try container.decodeIfPresent(LinkHandler.self, forKey: .handler)
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(id, forKey: .id)
        try container.encodeIfPresent(device, forKey: .device)
        if device == nil { try container.encode(true, forKey: .known) }
        switch subject {
        case .scheme(let name): try container.encode(name, forKey: .scheme)
        case .service(let name): try container.encode(name, forKey: .service)
        case .folder(let name): try container.encode(name, forKey: .folder)
        case .transfer: try container.encode(true, forKey: .transfer)
        }
        try container.encodeIfPresent(until, forKey: .until)
        try container.encode(source, forKey: .source)
        try container.encode(uses, forKey: .uses)
        try container.encodeIfPresent(lastUse, forKey: .lastUse)
        try container.encodeIfPresent(handler, forKey: .handler)
    }
}
