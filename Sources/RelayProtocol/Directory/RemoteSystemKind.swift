// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The kind of a device, for display. Its apps determine what it can do.
public struct RemoteSystemKind: RawRepresentable, Hashable, Sendable, Codable, CustomStringConvertible {
    /// The name in records and JSON.
    public let rawValue: String

    /// The kind with that name.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// A desktop computer.
    public static let desktop = Self(rawValue: "desktop")
    /// A laptop.
    public static let laptop = Self(rawValue: "laptop")
    /// A tablet.
    public static let tablet = Self(rawValue: "tablet")
    /// A phone.
    public static let phone = Self(rawValue: "phone")
    /// A large shared screen.
    public static let hub = Self(rawValue: "hub")
    /// A headset.
    public static let holographic = Self(rawValue: "holographic")
    /// A game console, under the original's name.
    public static let xbox = Self(rawValue: "xbox")
    /// A small single-purpose device.
    public static let iot = Self(rawValue: "iot")

    /// The name.
    public var description: String { rawValue }
}

/// An operating system.
public struct RemoteSystemPlatform: RawRepresentable, Hashable, Sendable, Codable, CustomStringConvertible {
    /// The name in records and JSON.
    public let rawValue: String

    /// The platform with that name.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// An unknown platform.
    public static let unknown = Self(rawValue: "unknown")
    /// Linux.
    public static let linux = Self(rawValue: "linux")
    /// macOS.
    public static let macOS = Self(rawValue: "macos")
    /// iOS and iPadOS.
    public static let iOS = Self(rawValue: "ios")
    /// Android.
    public static let android = Self(rawValue: "android")
    /// Windows.
    public static let windows = Self(rawValue: "windows")

    /// The name.
    public var description: String { rawValue }
}
