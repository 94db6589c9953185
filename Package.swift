// swift-tools-version: 6.2
// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
]

/// The commit for `--version`, set by the scripts. The manifest cannot ask git: SwiftPM caches its result while the environment stays the
/// same.
let commit = Context.environment["DEVICE_RELAY_COMMIT"]?.filter { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }

/// A product that only the trait `Server` needs.
func server(_ name: String, _ package: String) -> Target.Dependency {
    .product(name: name, package: package, condition: .when(traits: ["Server"]))
}

/// An example program. The tests build and run it; it is not a product.
func example(_ name: String) -> Target {
    .executableTarget(
        name: name,
        dependencies: ["DeviceRelay", "ExampleSupport"],
        path: "Examples/\(name)",
        swiftSettings: settings
    )
}

let package = Package(
    name: "device-relay",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "DeviceRelay", targets: ["DeviceRelay"]),
        .library(name: "DeviceRelayLifecycle", targets: ["DeviceRelayLifecycle"]),
        .library(name: "DeviceRelayTesting", targets: ["DeviceRelayTesting"]),
        .executable(name: "relay", targets: ["relay"]),
        .executable(name: "relayd", targets: ["relayd"]),
    ],
    traits: [
        .default(enabledTraits: ["Postgres", "Server", "Tracing"]),
        .trait(name: "Server", description: "The relay service; without it only the SDK's dependencies are resolved."),
        .trait(name: "Postgres", description: "Several nodes on one PostgreSQL database; needs libpq."),
        .trait(name: "Tracing", description: "Spans of launches and calls, for the tracer of swift-distributed-tracing in the program."),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.0"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.0"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.0"),
        .package(url: "https://github.com/apple/swift-nio-http2", from: "1.46.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.0"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.0"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.0"),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.2"),
    ],
    targets: [
        .target(
            name: "RelayProtocol",
            dependencies: [
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        // Queues for any type. Public, because only a public type is specialised for the types of another module.
        .target(
            name: "RelayCollections",
            dependencies: [
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "HeapModule", package: "swift-collections"),
            ],
            swiftSettings: settings
        ),
        // Storage of the SDK and the services: private files, locks, SQLite.
        .target(
            name: "RelayStorage",
            dependencies: [
                "CLinux",
                "RelayProtocol",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ],
            swiftSettings: settings
        ),
        // Look-ups of names that users choose.
        .target(name: "RelayResolver", dependencies: [.product(name: "NIOCore", package: "swift-nio")], swiftSettings: settings),
        // The files of the console and of all pages, embedded.
        .target(name: "CConsoleFiles"),
        .target(name: "ConsoleFiles", dependencies: ["CConsoleFiles"], exclude: ["Web"], swiftSettings: settings),
        // The texts of both programs in the languages of the pages, embedded.
        .target(name: "CProgramTexts"),
        .target(name: "ProgramTexts", dependencies: ["CProgramTexts", "ConsoleFiles"], exclude: ["Texts"], swiftSettings: settings),
        // The spans of the SDK and the service.
        .target(
            name: "RelayTracing",
            dependencies: [
                "RelayProtocol",
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: .when(traits: ["Tracing"])),
            ],
            swiftSettings: settings
        ),
        // The log of the service: its lines, its formats and its events.
        .target(
            name: "RelayLog",
            dependencies: [server("CoreMetrics", "swift-metrics"), server("Logging", "swift-log")],
            swiftSettings: settings
        ),
        // What the HTTP servers of both programs share.
        .target(
            name: "RelayHTTP",
            dependencies: [
                "RelayProtocol",
                server("Hummingbird", "hummingbird"),
                server("HummingbirdCore", "hummingbird"),
                server("Logging", "swift-log"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "DeviceRelay",
            dependencies: [
                "CLinux",
                "ConsoleFiles",
                "RelayCollections",
                "RelayProtocol",
                "RelayStorage",
                "RelayTracing",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            swiftSettings: settings
        ),
        // The platform as a service of swift-service-lifecycle, for server programs.
        .target(
            name: "DeviceRelayLifecycle",
            dependencies: ["DeviceRelay", server("ServiceLifecycle", "swift-service-lifecycle")],
            swiftSettings: settings
        ),
        .target(
            name: "RelayAgent",
            dependencies: [
                "ConsoleFiles",
                "DeviceRelay",
                "ProgramTexts",
                "RelayHTTP",
                "RelayProtocol",
                "RelayResolver",
                "RelayStorage",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
                server("HTTPTypes", "swift-http-types"),
                server("Hummingbird", "hummingbird"),
                server("HummingbirdCore", "hummingbird"),
                server("HummingbirdTLS", "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                server("NIOHTTPCompression", "swift-nio-extras"),
                server("NIOHTTPTypes", "swift-nio-extras"),
                server("NIOHTTPTypesHTTP1", "swift-nio-extras"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                server("Subprocess", "swift-subprocess"),
                .product(name: "SystemPackage", package: "swift-system", condition: .when(platforms: [.linux], traits: ["Server"])),
                server("Yams", "Yams"),
            ],
            resources: [.embedInCode("Resources/openapi.yaml")],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "relay",
            dependencies: [
                "BuildVersion",
                "ProgramTexts",
                "RelayAgent",
                "RelayProtocol",
                server("ArgumentParser", "swift-argument-parser"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "RelayIssuer",
            dependencies: [
                "ConsoleFiles",
                "RelayLog",
                "RelayProtocol",
                "RelayStorage",
                server("Crypto", "swift-crypto"),
                server("CryptoExtras", "swift-crypto"),
                server("GRDB", "GRDB.swift"),
                server("Hummingbird", "hummingbird"),
                server("Logging", "swift-log"),
                server("NIOCore", "swift-nio"),
                server("NIOPosix", "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "RelayPush",
            dependencies: [
                "RelayCollections",
                "RelayProtocol",
                "RelayResolver",
                server("AsyncHTTPClient", "async-http-client"),
                server("CoreMetrics", "swift-metrics"),
                server("Crypto", "swift-crypto"),
                server("CryptoExtras", "swift-crypto"),
                server("Logging", "swift-log"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOPosix", "swift-nio"),
                server("NIOSSL", "swift-nio-ssl"),
            ],
            swiftSettings: settings
        ),
        .target(name: "CLinux"),
        .target(name: "CResolver", linkerSettings: [.linkedLibrary("resolv")]),
        .target(name: "CVersion", cSettings: commit.map { [.define("DEVICE_RELAY_COMMIT", to: "\"\($0)\"")] } ?? []),
        .target(name: "BuildVersion", dependencies: ["CVersion", "RelayProtocol"], swiftSettings: settings),
        .target(
            name: "RelayServer",
            dependencies: [
                "CLinux",
                "CResolver",
                "RelayCollections",
                "RelayHTTP",
                "RelayLog",
                "RelayProtocol",
                "RelayStorage",
                "RelayTracing",
                server("Configuration", "swift-configuration"),
                server("CoreMetrics", "swift-metrics"),
                server("Crypto", "swift-crypto"),
                server("CryptoExtras", "swift-crypto"),
                server("GRDB", "GRDB.swift"),
                server("HTTPTypes", "swift-http-types"),
                server("Hummingbird", "hummingbird"),
                server("HummingbirdCore", "hummingbird"),
                server("Logging", "swift-log"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOHTTPTypes", "swift-nio-extras"),
                server("NIOHTTPTypesHTTP1", "swift-nio-extras"),
                server("NIOPosix", "swift-nio"),
                server("NIOSSL", "swift-nio-ssl"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
                server("SwiftASN1", "swift-asn1"),
                server("UnixSignals", "swift-service-lifecycle"),
                server("X509", "swift-certificates"),
            ],
            swiftSettings: settings
        ),
        .systemLibrary(name: "CPostgres", pkgConfig: "libpq", providers: [.apt(["libpq-dev"]), .brew(["libpq"])]),
        .target(
            name: "RelayPostgres",
            dependencies: [
                .target(name: "CPostgres", condition: .when(traits: ["Postgres"])),
                "RelayIssuer",
                "RelayServer",
                "RelayStorage",
                server("NIOPosix", "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "RelayComposition",
            dependencies: [
                "BuildVersion",
                "DeviceRelay",
                "RelayIssuer",
                "RelayLog",
                "RelayPostgres",
                "RelayProtocol",
                "RelayPush",
                "RelayServer",
                "RelayStorage",
                server("Hummingbird", "hummingbird"),
                server("Logging", "swift-log"),
                server("NIOCore", "swift-nio"),
                server("NIOPosix", "swift-nio"),
                server("NIOSSL", "swift-nio-ssl"),
                server("NIOTLS", "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "relayd",
            dependencies: [
                "BuildVersion",
                "CLinux",
                "ProgramTexts",
                "RelayComposition",
                "RelayIssuer",
                "RelayLog",
                "RelayProtocol",
                "RelayServer",
                "RelayStorage",
                server("ArgumentParser", "swift-argument-parser"),
                server("Configuration", "swift-configuration"),
                server("Logging", "swift-log"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
                server("UnixSignals", "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "DeviceRelayTesting",
            dependencies: [
                "DeviceRelay",
                "RelayComposition",
                "RelayIssuer",
                "RelayLog",
                "RelayProtocol",
                "RelayServer",
                server("Logging", "swift-log"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "RelayTesting",
            dependencies: [
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "ProgramTextsTests",
            dependencies: ["ConsoleFiles", "ProgramTexts", "RelayTesting"],
            swiftSettings: settings
        ),
        .testTarget(name: "ConsoleFilesTests", dependencies: ["ConsoleFiles"], swiftSettings: settings),
        .testTarget(
            name: "DeviceRelayTests",
            dependencies: [
                "DeviceRelay",
                "RelayProtocol",
                "RelayStorage",
                "RelayTesting",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "NIOWebSocket", package: "swift-nio"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "DeviceRelayTestingTests",
            dependencies: [
                "DeviceRelay",
                "DeviceRelayTesting",
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: .when(traits: ["Tracing"])),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "IntegrationTests",
            dependencies: [
                "DeviceRelay",
                "DeviceRelayLifecycle",
                "RelayProtocol",
                "RelayTesting",
                "TestHost",
                "Torture",
                "relayd",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "Logging", package: "swift-log"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "DocumentationSnippets",
            dependencies: [
                "DeviceRelay",
                "DeviceRelayLifecycle",
                .product(name: "Logging", package: "swift-log"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
                server("UnixSignals", "swift-service-lifecycle"),
            ],
            path: "DocumentationSnippets",
            swiftSettings: settings
        ),
        .target(name: "ExampleSupport", dependencies: ["DeviceRelay"], path: "Examples/Support", swiftSettings: settings),
        example("PhotoShare"),
        example("PingPong"),
        example("PlaybackTransfer"),
        // The model of the iOS sample. Its views are for Xcode, and part of no target here. Like an app's, its code sees public symbols only.
        .target(
            name: "RomeSampleModel",
            dependencies: ["DeviceRelay"],
            path: "Examples/RomeSample/Model",
            packageAccess: false,
            swiftSettings: settings
        ),
        .target(
            name: "MainActorSnippets",
            dependencies: ["DeviceRelay"],
            path: "Tests/MainActorSnippets",
            swiftSettings: settings + [.defaultIsolation(MainActor.self)]
        ),
        .executableTarget(
            name: "TestHost",
            dependencies: ["DeviceRelay", "RelayProtocol"],
            path: "Tests/TestHost",
            swiftSettings: settings
        ),
        .executableTarget(
            name: "Torture",
            dependencies: [
                "DeviceRelay",
                "RelayProtocol",
                "RelayTesting",
                server("ArgumentParser", "swift-argument-parser"),
                server("CryptoExtras", "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            path: "Tests/Torture",
            swiftSettings: settings
        ),
        .testTarget(
            name: "RelayAgentTests",
            dependencies: [
                "DeviceRelay",
                "DeviceRelayTesting",
                "RelayAgent",
                "RelayProtocol",
                "RelayTesting",
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "RelayCommandTests",
            dependencies: [
                "ConsoleFiles",
                "DeviceRelay",
                "PhotoShare",
                "PingPong",
                "PlaybackTransfer",
                "ProgramTexts",
                "RelayAgent",
                "RelayProtocol",
                "RelayTesting",
                "relay",
                "relayd",
                server("ArgumentParser", "swift-argument-parser"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .testTarget(name: "RelayCollectionsTests", dependencies: ["RelayCollections", "RelayTesting"], swiftSettings: settings),
        .testTarget(
            name: "RelayProtocolTests",
            dependencies: [
                "RelayProtocol",
                "RelayTesting",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "RelayPushTests",
            dependencies: [
                "DeviceRelay",
                "RelayComposition",
                "RelayPostgres",
                "RelayProtocol",
                "RelayPush",
                "RelayResolver",
                "RelayServer",
                "RelayTesting",
                "TestHost",
                "relayd",
                server("CoreMetrics", "swift-metrics"),
                server("Crypto", "swift-crypto"),
                server("CryptoExtras", "swift-crypto"),
                server("Logging", "swift-log"),
                server("NIOCore", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOHTTP2", "swift-nio-http2"),
                server("NIOPosix", "swift-nio"),
                server("NIOSSL", "swift-nio-ssl"),
                server("SwiftASN1", "swift-asn1"),
                server("X509", "swift-certificates"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "RelayIssuerTests",
            dependencies: [
                "ConsoleFiles",
                "RelayIssuer",
                "RelayLog",
                "RelayPostgres",
                "RelayProtocol",
                "RelayServer",
                "RelayStorage",
                "RelayTesting",
                server("Crypto", "swift-crypto"),
                server("CryptoExtras", "swift-crypto"),
                server("GRDB", "GRDB.swift"),
                server("Hummingbird", "hummingbird"),
                server("HummingbirdTesting", "hummingbird"),
                server("Logging", "swift-log"),
                server("NIOCore", "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "RelayServerTests",
            dependencies: [
                "RelayComposition",
                "RelayIssuer",
                "RelayLog",
                "RelayPostgres",
                "RelayProtocol",
                "RelayServer",
                "RelayStorage",
                "RelayTesting",
                server("Configuration", "swift-configuration"),
                server("CoreMetrics", "swift-metrics"),
                server("Crypto", "swift-crypto"),
                server("CryptoExtras", "swift-crypto"),
                server("GRDB", "GRDB.swift"),
                server("Hummingbird", "hummingbird"),
                server("Logging", "swift-log"),
                server("NIOCore", "swift-nio"),
                server("NIOEmbedded", "swift-nio"),
                server("NIOHTTP1", "swift-nio"),
                server("NIOPosix", "swift-nio"),
                server("NIOSSL", "swift-nio-ssl"),
                server("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "RelayStorageTests",
            dependencies: ["RelayProtocol", "RelayStorage", "RelayTesting", .product(name: "GRDB", package: "GRDB.swift")],
            swiftSettings: settings
        ),
        .testTarget(
            name: "RomeSampleTests",
            dependencies: ["DeviceRelay", "RelayProtocol", "RelayTesting", "RomeSampleModel", "relayd"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "RelaydTests",
            dependencies: [
                "RelayComposition",
                "RelayLog",
                "RelayProtocol",
                "RelayServer",
                "relayd",
                server("ArgumentParser", "swift-argument-parser"),
                server("Logging", "swift-log"),
            ],
            swiftSettings: settings
        ),
    ]
)

// Benchmarks and fuzz targets use package symbols, so they live in this manifest; users of the package do not see them.
if ProcessInfo.processInfo.environment["DEVICE_RELAY_BENCHMARKS"] != nil {
    package.targets += [
        .executableTarget(
            name: "RelayBenchmarks",
            dependencies: [
                "DeviceRelay",
                "RelayIssuer",
                "RelayProtocol",
                "RelayServer",
                server("ArgumentParser", "swift-argument-parser"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            path: "Benchmarks/RelayBenchmarks",
            swiftSettings: settings
        ),
        .executableTarget(
            name: "RelayProtocolBenchmarks",
            dependencies: [
                "RelayProtocol",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            path: "Benchmarks/RelayProtocolBenchmarks",
            swiftSettings: settings
        ),
    ]
}

if let fuzzing = ProcessInfo.processInfo.environment["DEVICE_RELAY_FUZZING"] {
    /// What a target needs besides RelayProtocol.
    let more: [String: [Target.Dependency]] = [
        "FuzzDNS": ["RelayServer"],
        "FuzzForms": ["RelayIssuer", server("Crypto", "swift-crypto")],
        "FuzzPasskeys": ["RelayIssuer"],
        "FuzzSettings": ["RelayAgent", "RelayServer", server("Configuration", "swift-configuration")],
        "FuzzTar": ["RelayServer"],
        "FuzzTokens": ["RelayServer"],
        "FuzzWebSocket": ["RelayServer"],
    ]
    let names = [
        "CBOR", "Control", "DNS", "Forms", "JSON", "Nearby", "Pairing", "Passkeys", "Sealed", "Session", "Settings", "Share", "Tar",
        "Tokens", "WebSocket",
    ]
    for name in names.map({ "Fuzz\($0)" }) {
        let dependencies = [.product(name: "NIOCore", package: "swift-nio"), "RelayProtocol"] + more[name, default: []]
        let path = "FuzzTesting/\(name)"
        // Without its sanitizer, which has the main function, a fuzz target can be compiled but not linked.
        package.targets.append(
            fuzzing == "library"
                ? .target(name: name, dependencies: dependencies, path: path, swiftSettings: settings)
                : .executableTarget(name: name, dependencies: dependencies, path: path, swiftSettings: settings)
        )
    }
}

// On Linux, the code for Apple's DNS-SD service is compiled over Avahi's compatibility library (`scripts/check-dnssd`).
if ProcessInfo.processInfo.environment["DEVICE_RELAY_DNSSD"] != nil {
    package.targets.append(.systemLibrary(name: "dnssd", path: "Tests/dnssd"))
    package.targets.first { $0.name == "DeviceRelay" }?.dependencies.append("dnssd")
}
