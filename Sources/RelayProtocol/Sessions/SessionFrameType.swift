// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The frame types, and the valid header fields of each.
enum SessionFrameType: UInt8, CaseIterable {
    case settings = 1
    case open
    case opened
    case refused
    case request
    case response
    case error
    case data
    case grant
    case cancel
    case window
    case ping
    case pong
    case close
    case goaway
    case ack
    case moved

    /// Unknown types from this value on are skipped.
    static let firstSkipped: UInt8 = 0x80

    /// The valid body lengths.
    var bodyLengths: ClosedRange<Int> {
        switch self {
        case .settings: 1...SessionWire.metadataBytes
        case .open: 2...2 + SessionWire.metadataBytes
        case .opened, .grant, .cancel: 0...0
        case .refused, .error, .close: 2...2 + SessionWire.textBytes
        case .request, .response: 2...2 + SessionWire.metadataBytes + SessionWire.inlineBytes
        case .data: 1...SessionWire.inlineBytes
        case .window: 4...4
        case .ping, .pong, .ack, .moved: 8...8
        case .goaway: 6...6 + SessionWire.textBytes
        }
    }

    var flags: SessionFrameFlags {
        switch self {
        case .data: [.end, .response]
        case .grant: .response
        default: []
        }
    }

    /// The subject of a frame type. The header ids that it needs are not 0; the other ids are 0.
    enum Subject {
        case session
        case connection
        case request
    }

    var subject: Subject {
        switch self {
        case .settings, .ping, .pong, .goaway, .ack, .moved: .session
        case .open, .opened, .refused, .window, .close: .connection
        case .request, .response, .error, .data, .grant, .cancel: .request
        }
    }
}

struct SessionFrameFlags: OptionSet {
    let rawValue: UInt8

    /// In `data`: the last slice of its body.
    static let end = Self(rawValue: 0x01)
    /// In `data` and `grant`: the body of the response instead of the request.
    static let response = Self(rawValue: 0x02)
}

extension SessionFrame.Payload {
    var type: SessionFrameType {
        switch self {
        case .settings: .settings
        case .open: .open
        case .opened: .opened
        case .refused: .refused
        case .request: .request
        case .response: .response
        case .error: .error
        case .data: .data
        case .grant: .grant
        case .cancel: .cancel
        case .window: .window
        case .ping: .ping
        case .pong: .pong
        case .close: .close
        case .goaway: .goaway
        case .ack: .ack
        case .moved: .moved
        }
    }

    var flags: SessionFrameFlags {
        switch self {
        case .data(_, of: .request, isLast: let isLast): isLast ? .end : []
        case .data(_, of: .response, isLast: let isLast): isLast ? [.response, .end] : .response
        case .grant(.response): .response
        default: []
        }
    }
}
